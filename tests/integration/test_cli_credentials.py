"""tally credential as a program: the token alone on standard output, once, and never again anywhere."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tally.cli.terminal import now
from tally.services.credentials import authenticate_token
from tally.store.database import Connection
from tests.integration.command_line import Done, environment, run

EU1 = ("--role", "ingest", "--platform", "openstack", "--cloud", "os-prod-eu1")
TOKEN = re.compile(r"tally_([0-9a-f]{16})_[0-9a-f]{64}\n")

Credential = Callable[..., Done]


@pytest.fixture
def credential(home: Path, reporting_url: str, metering_url: str, dagster_url: str) -> Credential:
    """The program, in an installation on the test server."""
    variables = environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=reporting_url,
        TALLY_METERING_URL=metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )
    return lambda *arguments: run(variables, "credential", *arguments)


def test_a_token_is_made_rotated_and_revoked(credential: Credential, reporting: Connection) -> None:
    """Its life, as an operator lives it: each token can be piped, and no other output tells one."""
    first = credential("create", "collector-eu1", *EU1, "--days", "90")
    made = TOKEN.fullmatch(first.out)
    assert made, first
    assert f"collector-eu1 {made[1]} expires at " in first.err
    assert first.out.strip() not in first.err

    second = credential("create", "collector-eu1", *EU1, "--replaces", made[1], "--overlap-hours", "24")
    rotated = TOKEN.fullmatch(second.out)
    assert rotated, second
    for done in (first, second):
        principal = authenticate_token(reporting, done.out.strip(), now())
        assert principal is not None
        assert principal.name == "token:collector-eu1"

    assert credential("revoke", made[1]).out == f"collector-eu1 {made[1]} is revoked\n"
    assert authenticate_token(reporting, first.out.strip(), now()) is None

    listed = credential("list").out
    assert [line.split()[4] for line in listed.splitlines() if "collector-eu1" in line] == ["revoked", "active"]
    for done in (first, second):
        assert done.out.strip()[-64:] not in listed


def test_a_certificate_has_no_token(credential: Credential) -> None:
    """Nothing goes to standard output, where a token would be read from."""
    done = credential("create", "collector-eu1", *EU1, "--certificate", "CN=collector-eu1,O=Example")
    assert (done.status, done.out) == (0, "")
    assert "CN=collector-eu1,O=Example" in credential("list").out


@pytest.mark.parametrize(
    ("arguments", "status", "told"),
    [
        (["create", "a", "--role", "ingest", "--cloud", "os"], 2, "--platform and --cloud come together"),
        (["create", "a", "--role", "read_all"], 2, "comes from the OIDC issuer"),
        (["create", "a", "--role", "king"], 2, "'king' is not one of"),
        (["create", "a", "--role", "operator", "--days", "9" * 30], 2, "1 to 3660 days"),
        (["create", "a", "--role", "operator", "--days", "1", "--expires", "2099-01-01T00:00:00Z"], 2, "give one"),
        (["create", "a", "--role", "operator", "--overlap-hours", "9999"], 2, "overlap-hours"),
        (["revoke", "0123456789abcdef"], 1, "list the credentials to see their ids"),
    ],
)
def test_a_mistake_is_told_in_one_line(credential: Credential, arguments: list[str], status: int, told: str) -> None:
    """And makes nothing."""
    done = credential(*arguments)
    assert (done.status, done.out) == (status, "")
    assert told in done.error
