"""tally rejected and tally rebuild: what an operator sees and does on the command line (rules 7 and 11)."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.sending import CREATE, current, event, projection, send, stored, volume
from tests.integration.test_cli import PATIENCE

TALLY = Path(sys.executable).with_name("tally")
Tally = Callable[..., subprocess.CompletedProcess[bytes]]


@pytest.fixture
def tally(home: Path, reporting_url: str, metering_url: str, dagster_url: str) -> Tally:
    """The program, in an installation on the test server."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    urls = {"REPORTING": reporting_url, "METERING": metering_url, "DAGSTER": dagster_url}
    variables = clean | {"TALLY_HOME": str(home)} | {f"TALLY_{name}_URL": url for name, url in urls.items()}
    return lambda *arguments: subprocess.run(
        [TALLY, *arguments], capture_output=True, env=variables, check=False, timeout=PATIENCE
    )


def share(number: int) -> dict[str, object]:
    """An event of a type that nobody knows."""
    return event(str(number), "01T00:00:00", "share.create.end", f"s-{number}", resource_type="share")


def test_rejected_events_are_mended_on_the_command_line(tally: Tally, reporting: Connection) -> None:
    """Listed, shown byte for byte, replayed in vain, and replayed after the mending."""
    for sent in (share(1), share(2), b"\xff{"):
        send(reporting, sent)
    listed = tally("rejected", "list", "--reason", "unknown_resource_type", "--limit", "1")
    assert (listed.returncode, listed.stdout.count(b"share"), listed.stdout.count(b"'openstack.share'")) == (0, 1, 1)
    assert b"--before 2" in listed.stderr
    assert b"'openstack.share'" in tally("rejected", "list", "--before", "2").stdout
    assert tally("rejected", "show", "3").stdout == b"\xff{"
    unknown = tally("rejected", "show", "17")
    assert (unknown.returncode, unknown.stderr) == (1, b"tally: there is no dead letter 17\n")

    vain = tally("rejected", "replay", "--reason", "unknown_resource_type")
    assert (vain.returncode, vain.stdout) == (
        1,
        b"accepted 0, deduplicated 0, rejected 2\n  unknown_resource_type: 2\n",
    )
    define_type(reporting, "openstack", "share", {"lifecycle": {"share.create.end": "create"}}, "test")
    assert tally("rejected", "replay", "--id", "1").stdout == b"accepted 1, deduplicated 0, rejected 0\n"
    done = tally("rejected", "replay", "--reason", "unknown_resource_type")
    assert (done.returncode, done.stdout) == (0, b"accepted 1, deduplicated 0, rejected 0\n")
    assert stored(reporting) == ["1", "2"]
    assert tally("rejected", "list", "--reason", "unknown_resource_type").stdout == b"none\n"
    assert tally("rejected", "list", "--all").stdout.count(b"\n") == 5


@pytest.mark.parametrize(
    "arguments", [(), ("--id", "1", "--reason", "x"), ("--id", "1", "--cloud", "x"), ("--cloud", "x"), ("--id", "0")]
)
def test_a_replay_says_of_what(tally: Tally, arguments: tuple[str, ...]) -> None:
    """There is no replay of everything by accident."""
    done = tally("rejected", "replay", *arguments)
    assert (done.returncode, b"--id" in done.stderr) == (2, True)


def test_the_projection_is_rebuilt_on_the_command_line(tally: Tally, reporting: Connection) -> None:
    """Of one cloud, or of all."""
    send(reporting, *(volume("1", "01T00:00:00", CREATE, 10, cloud=cloud) for cloud in ("a", "b")))
    before = projection(reporting)
    reporting.execute("update reporting.current_resources set state = 'spoiled'")
    assert tally("rebuild", "--cloud", "a").stdout == b"replayed 1 resources\n"
    assert projection(reporting) != before
    assert tally("rebuild").stdout == b"replayed 2 resources\n"
    assert projection(reporting) == before
    assert current(reporting)["state"] == "available"
