"""The command line as a program: what it prints, its exit codes, and that it leaves nothing running."""

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import requests
from typer.testing import CliRunner

from tally import example
from tally.cli import app
from tally.services.orchestrator import alone
from tally.store.database import Connection
from tests.conftest import REPOSITORY
from tests.integration.command_line import PATIENCE, TALLY, Done, Tally, environment, processes_that_name, program, run
from tests.integration.test_late import finalized_run


@pytest.fixture
def installed(home: Path, reporting_url: str, metering_url: str, dagster_url: str) -> dict[str, str]:
    """The environment of an installation on the test server."""
    return environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=reporting_url,
        TALLY_METERING_URL=metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )


@pytest.fixture
def embedded(home: Path) -> dict[str, str]:
    """The environment of an installation with a server of its own."""
    return environment(TALLY_HOME=str(home))


@pytest.fixture
def tally(installed: dict[str, str]) -> Tally:
    """The command line, in an installation on the test server."""
    return lambda *arguments, stdin=b"": run(installed, *arguments, stdin=stdin)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


EVENT = example.EVENTS.read_bytes().splitlines()[0]


def test_a_repeated_file_is_counted_and_not_stored(installed: dict[str, str], reporting: Connection) -> None:
    """Taking a file again is safe."""
    first = program(installed, "ingest", example.EVENTS)
    assert first.out == "accepted 157, deduplicated 0, rejected 0\n"
    again = program(installed, "ingest", example.EVENTS)
    assert (again.status, again.out, again.err) == (0, "accepted 0, deduplicated 157, rejected 0\n", "")
    assert reporting.execute("select count(*) from reporting.events").fetchone() == (157,)


def test_a_rejected_event_is_told_with_its_reason(tally: Tally) -> None:
    """Its neighbours are stored, and the exit code is 1."""
    conflict = EVENT.replace(b"m1.large", b"m1.small")
    done = tally("ingest", "-", stdin=b"\n".join([EVENT, b"", conflict, b"{broken"]))
    assert done.status == 1
    assert done.out.startswith("accepted 1, deduplicated 0, rejected 2\n")
    assert "event_id_conflict: 1\n" in done.out
    assert done.err == ""


def test_notifications_of_nova_go_in(tally: Tally, reporting: Connection, shared: Path) -> None:
    """What changes nothing that is billed is counted as ignored."""
    files = sorted((shared / "samples/openstack/nova-legacy").glob("*.json"))[:3]
    if not files:
        pytest.skip("the collection holds no nova notifications")
    done = tally("ingest", "--format", "nova", "--cloud", "os-prod-eu1", *files)
    assert done.status == 0, done
    assert "ignored" in done.out
    assert reporting.execute("select distinct cloud from reporting.events").fetchall() == [("os-prod-eu1",)]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["ingest", "/nowhere/events.jsonl"], "/nowhere/events.jsonl cannot be read: No such file or directory"),
        (["ingest", "/"], "/ is a directory"),
        (["ingest"], "Missing argument"),
        (["ingest", "--format", "nova", "x"], "--format nova needs --cloud"),
        (["ingest", "--format", "csv", "x"], "'csv' is not one of"),
        (["close"], "Missing argument 'PERIOD'. (see tally close --help)"),
        (["bill", "2026-03", "--format", "xml"], "'--format': 'xml' is not one of 'table', 'json'. (see tally bill"),
        (["project", "create"], "(see tally project create --help)"),
        (["close", "2026-13"], "'2026-13' is not a billing period"),
        (["finalize", "2026-03", "--waive", "unpriced"], "--waive and --reason come together"),
        (["project", "create", "no-slash", "--platform", "openstack"], "write cloud/project"),
        (["project", "relate", "a/b", "c/d", "member_of", "--from", "2026-03-01"], "with a zone"),
        (["project", "create", "a/b", "--platform", "openstack", "--metadata", "[]"], "is no JSON object"),
        (["project", "create", "a/b", "--platform", "openstack", "--metadata", "[" * 100_000], "is no JSON object"),
        (["project", "create", "a/b", "--platform", "openstack", "--metadata", '{"a": NaN}'], "NaN is not JSON"),
        (["fly"], "No such command 'fly'"),
        (["rejected", "list", "--reason", "invalid_sise"], "'invalid_sise' is no reason for which events are rejected"),
        (["rebuild", "--cloud", ""], "what follows --cloud is empty; name it, or leave the option out"),
        (["rebuild", "--cloud="], "what follows --cloud= is empty"),
        (["close", ""], "what follows close is empty"),
    ],
    ids=lambda value: "_".join(value)[:40] if isinstance(value, list) else "",
)
def test_wrong_usage_is_one_line_and_exit_code_2(home: Path, arguments: list[str], told: str) -> None:
    """Nothing is started to find out."""
    done = run(environment(TALLY_HOME=str(home)), *arguments)
    assert done.status == 2
    assert told in done.error
    assert done.out == ""
    assert list(home.iterdir()) == []


def test_a_closed_standard_input_is_told(home: Path) -> None:
    """As a cron job or a service may have it."""
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec '{TALLY}' ingest - <&-"],
        capture_output=True,
        env=environment(TALLY_HOME=str(home)),
        check=False,
        timeout=PATIENCE,
    )
    assert (done.returncode, done.stdout) == (2, b"")
    assert Done(2, "", done.stderr.decode()).error.startswith("tally: - is standard input, which is closed")


@pytest.mark.parametrize(
    ("command", "status", "told"),
    [
        (f"pricing lint {REPOSITORY}/pricing/models >&-", 0, ""),
        ("fly 2>&-", 2, ""),
        ("pricing lint /nowhere.yaml >&- 2>&-", 2, ""),
        ("--version >/dev/full", 1, "tally: No space left on device: make room, then try it again\n"),
    ],
)
def test_an_output_that_is_closed_is_nowhere_and_one_that_is_full_is_told(command: str, status: int, told: str) -> None:
    """What a service manager has closed changes neither what is done nor the exit code.

    Python writes at its end what it has kept back until then, unless its environment says otherwise.
    """
    done = subprocess.run(
        ["/bin/sh", "-c", f"unset PYTHONUNBUFFERED; exec '{TALLY}' {command}"], capture_output=True, env=environment(),
        check=False, timeout=PATIENCE,
    )
    assert (done.returncode, done.stderr.decode()) == (status, told)


def test_faulty_settings_are_told(home: Path) -> None:
    """All of them in one line."""
    done = run(environment(TALLY_HOME=str(home), TALLY_ZONE="Mars", TALLY_ZOO="1"), "periods")
    assert done.status == 2
    assert "TALLY_ZONE='Mars'" in done.error
    assert "TALLY_ZOO is not a setting" in done.error


def test_a_database_that_does_not_answer_is_told_without_its_password(installed: dict[str, str]) -> None:
    """A password never reaches a terminal or a log."""
    url = f"postgresql://tally:hunter2@127.0.0.1:{free_port()}/tally_metering"
    done = run(installed | {"TALLY_METERING_URL": url}, "periods")
    assert done.status == 1
    assert "'tally_metering' at 127.0.0.1" in done.error
    assert "hunter2" not in done.err


def test_a_month_without_a_run_has_no_bills(tally: Tally) -> None:
    """The error says what to do."""
    done = tally("bill", "2026-03")
    assert done.status == 1
    assert "close it first: tally close 2026-03" in done.error


@pytest.mark.slow
def test_a_close_that_cannot_begin_is_told_in_one_line(installed: dict[str, str], home: Path) -> None:
    """The silence of Dagster's own database shows no traceback."""
    url = f"postgresql://tally:hunter2@127.0.0.1:{free_port()}/tally_dagster"
    done = run(installed | {"TALLY_DAGSTER_URL": url}, "close", "2026-03")
    assert done.status == 1
    assert "Traceback" not in done.err
    assert "refused" in done.err.splitlines()[-1]
    log = home / "logs/close_month-2026-03.log"
    assert str(log) in done.err
    assert "Traceback" in log.read_text()
    assert "hunter2" not in done.err + log.read_text()


def test_what_a_month_cannot_be_yet_is_told_before_anything_is_started(tally: Tally, home: Path) -> None:
    """Dagster would take its time to say the same."""
    early = tally("close", "2019-12")
    assert (early.status, early.error) == (1, "tally: 2019-12 cannot be run: the first month that can be is 2020-01")
    future = tally("close", "9998-12")
    assert (future.status, future.error) == (
        1, "tally: 9998-12 cannot be run: it begins only at 9998-12-01T00:00:00Z",
    )
    unclosed = tally("finalize", "2026-03", "--waive", "unpriced", "--reason", "free")
    assert (unclosed.status, unclosed.error) == (
        1, "tally: 2026-03 cannot be finalized: it has no completed run; close it: tally close 2026-03",
    )
    assert not (home / "logs").exists()


def test_nothing_to_list_is_none(tally: Tally) -> None:
    """An empty installation answers."""
    for command in (["runs"], ["runs", "2026-03"], ["project", "list"], ["cloud", "list"]):
        done = tally(*command)
        assert (done.status, done.out, done.err) == (0, "none\n", "")


def test_who_has_closed_no_month_is_told_how(tally: Tally) -> None:
    """The first thing that a newcomer asks for is where the months stand."""
    done = tally("periods")
    assert (done.status, done.out, done.err) == (0, "no month is closed; close one: tally close PERIOD\n", "")


def test_projects_are_registered_and_related(tally: Tally) -> None:
    """The same again changes nothing; names that look like markup are printed as they are."""
    for _ in range(2):
        assert tally("project", "create", "g/alpha", "--platform", "gardener", "--name", "[bold]A[/bold]").status == 0
        assert tally("project", "create", "o/shoot", "--platform", "openstack", "--metadata", '{"a": 1.10}').status == 0
        related = tally(
            "project", "relate", "g/alpha", "o/shoot", "infrastructure_tenant", "--from", "2026-02-25T11:00:00+01:00"
        )
        assert related.status == 0, related
    listed = tally("project", "list").out
    assert "[bold]A[/bold]" in listed
    assert listed.count("infrastructure_tenant") == 1
    assert "2026-02-25T10:00:00Z" in listed
    refused = tally("project", "create", "o/shoot", "--platform", "hetzner")
    assert refused.status == 1
    assert "belongs to the platform openstack" in refused.error


def test_a_relation_is_closed_and_a_finalized_month_asks_why(
    tally: Tally, reporting: Connection, metering: Connection
) -> None:
    """Without a reason nothing changes; with one, the relation keeps it."""
    for project in ("o/a", "o/b"):
        assert tally("project", "create", project, "--platform", "openstack").status == 0
    related = tally("project", "relate", "o/a", "o/b", "same_owner", "--from", "2026-02-25T10:00:00Z")
    relation = related.out.split()[-1]
    finalized_run(reporting, metering)
    closing = ("project", "close", relation, "--to", "2026-03-01T00:00:00Z")
    refused = tally(*closing)
    assert refused.status == 1
    assert "2026-03, which is finalized; give a reason" in refused.error
    closed = tally(*closing, "--reason", "it was gone")
    assert (closed.status, closed.out) == (0, f"{relation} ends at 2026-03-01T00:00:00Z\n")
    assert tally(*closing).out == closed.out
    early = tally("project", "relate", "o/b", "o/a", "same_owner", "--from", "2026-03-31T00:00:00Z")
    assert (early.status, "give a reason" in early.error) == (1, True)


def test_clouds_are_registered_and_listed(tally: Tally) -> None:
    """The same again changes nothing; a cloud keeps its platform."""
    register = ("cloud", "register", "openstack", "os-prod-eu1")
    told = ["os-prod-eu1 is registered\n", "os-prod-eu1 is registered already\n"]
    assert [tally(*register).out for _ in told] == told
    assert "os-prod-eu1" in tally("cloud", "list").out
    refused = tally("cloud", "register", "hetzner", "os-prod-eu1")
    assert (refused.status, "belongs to the platform openstack" in refused.error) == (1, True)


def test_a_reader_that_goes_away_is_no_accident(installed: dict[str, str]) -> None:
    """As in `tally --help | head -0`: no traceback."""
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [TALLY, "periods"], stdout=writing, stderr=subprocess.PIPE, env=installed, check=False, timeout=PATIENCE
    )
    os.close(writing)
    assert done.returncode == 1
    assert done.stderr == b""


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_command_stops_what_it_started(
    embedded: dict[str, str], home: Path, number: signal.Signals, status: int
) -> None:
    """Ctrl-C and a terminating system leave no server and no traceback."""
    command = subprocess.Popen(
        [TALLY, "ingest", "-"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=embedded
    )
    deadline = time.monotonic() + PATIENCE
    while not (home / "postgres/data/postmaster.pid").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    command.send_signal(number)
    _, err = command.communicate(timeout=PATIENCE)
    assert command.returncode == status
    assert b"Traceback" not in err
    assert (b"tally: interrupted" in err) == (number == signal.SIGINT)


def test_the_help_names_every_command(home: Path) -> None:
    """Without a command the help is shown, as wrong usage."""
    variables = environment(TALLY_HOME=str(home))
    shown = program(variables)
    assert shown.status == 2
    assert program(variables, "--help") == (0, shown.out, "")
    for command in ("ingest", "close", "finalize", "bill", "periods", "runs", "up", "demo", "migrate", "project"):
        assert f" {command} " in shown.out
        helped = CliRunner().invoke(app, [command, "--help"])
        assert helped.exit_code == 0
        assert f" {command} " in helped.output


def test_migrate_says_what_it_changed(embedded: dict[str, str]) -> None:
    """The second time there is nothing to change."""
    first = program(embedded, "migrate")
    assert first.status == 0, first
    assert "migrated reporting: 0001_registry" in first.out
    assert "loaded price version: 2026-03" in first.out
    assert program(embedded, "migrate").out == "everything is up to date\n"


def test_up_refuses_a_taken_port(installed: dict[str, str]) -> None:
    """Another program keeps its port."""
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        done = run(installed | {"TALLY_WEB_PORT": str(other.getsockname()[1])}, "up")
    assert done.status == 2
    assert "name another port" in done.error


def test_up_refuses_to_run_twice_in_a_home(installed: dict[str, str], home: Path) -> None:
    """Also where the first has not come so far as to take its port."""
    with alone(home):
        done = run(installed | {"TALLY_WEB_PORT": str(free_port())}, "up")
    told = f"tally: tally up runs already in {home}: stop it first, or set another TALLY_HOME"
    assert (done.status, done.out, done.error) == (1, "", told)


@contextmanager
def up(variables: dict[str, str], cwd: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """`tally up` as it serves, and its address; afterwards neither Dagster nor PostgreSQL runs."""
    port = free_port()
    command = subprocess.Popen(
        [TALLY, "up"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=variables | {"TALLY_WEB_PORT": str(port)},
        cwd=cwd,
        text=True,
    )
    assert command.stdout is not None
    try:
        assert f"http://127.0.0.1:{port}" in command.stdout.readline()
        yield command, f"http://127.0.0.1:{port}"
    finally:
        command.send_signal(signal.SIGINT)
        command.communicate(timeout=PATIENCE)
    assert processes_that_name(variables["TALLY_HOME"]) == []
    with socket.socket() as probe:
        assert probe.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.slow
def test_up_serves_until_it_is_interrupted(embedded: dict[str, str], tmp_path: Path) -> None:
    """From any directory, and without a word."""
    with up(embedded, tmp_path) as (command, address):
        query = {"query": "{ repositoriesOrError { ... on RepositoryConnection { nodes { jobs { name } } } } }"}
        answer = requests.post(f"{address}/graphql", json=query, timeout=PATIENCE).json()
        jobs = [job["name"] for node in answer["data"]["repositoriesOrError"]["nodes"] for job in node["jobs"]]
        assert {"close_month", "finalize_month"} <= set(jobs)
        command.send_signal(signal.SIGINT)
        _, err = command.communicate(timeout=PATIENCE)
        assert (command.returncode, err) == (0, "")


@pytest.mark.drill
def test_up_ends_in_one_line_when_its_postgresql_is_killed(embedded: dict[str, str], home: Path) -> None:
    """Dagster alone would go on, and only fail. The next command finds everything in its place."""
    with up(embedded, home) as (command, _):
        os.kill(int((home / "postgres/data/postmaster.pid").read_text().splitlines()[0]), signal.SIGKILL)
        out, err = command.communicate(timeout=PATIENCE)
        ended = Done(command.returncode, out, err)
    assert (ended.status, "PostgreSQL in" in ended.error, "start this command again" in ended.error) == (1, True, True)
    assert run(embedded, "migrate").out == "everything is up to date\n"


@pytest.mark.slow
def test_the_example_month_from_demo_to_finalized(tally: Tally, home: Path) -> None:
    """The demo succeeds again and again, also when the month is finalized."""
    for _ in range(2):
        done = tally("demo")
        assert done.status == 0, done
        assert "520.80" in done.out
        assert "128.45" in done.out
    document = home / "bills/2026-03/gardener-eu2/team-alpha.json"
    assert str(document) in done.out
    assert json.loads(document.read_text())["total"] == 520.8

    printed = tally("bill", "2026-03", "--project", "gardener-eu2/team-alpha", "--format", "json")
    assert printed.out.strip() == document.read_text().strip()
    assert len(json.loads(tally("bill", "2026-03", "--format", "json").out)) == len(
        list(home.glob("bills/2026-03/*/*"))
    )
    ambiguous = tally("bill", "2026-03", "--project", "proj-456", "--format", "json")
    assert ambiguous.status == 1
    assert "name one of os-prod-eu1/proj-456, os-prod-eu2/proj-456" in ambiguous.error

    finalized = tally("finalize", "2026-03")
    assert finalized.status == 0, finalized
    assert "finalized" in tally("periods").out
    assert tally("runs", "2026-03").out.count("superseded") == 1
    assert tally("demo").status == 0


def test_a_file_where_a_directory_should_be_is_told(home: Path) -> None:
    """Whatever stands in the way in TALLY_HOME is named."""
    (home / "postgres").write_text("")
    done = run(environment(TALLY_HOME=str(home)), "periods")
    assert done.status == 1
    assert str(home / "postgres") in done.error
    assert "unexpected" not in done.error
