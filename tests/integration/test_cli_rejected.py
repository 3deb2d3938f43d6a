"""tally rejected and tally rebuild: what an operator sees and does on the command line (rules 7 and 11)."""

from pathlib import Path

import pytest

from tally.services.registry import define_type
from tally.store.database import Connection
from tests.integration.command_line import Tally, environment, run
from tests.integration.sending import CREATE, current, event, projection, send, stored, volume


@pytest.fixture
def tally(home: Path, reporting_url: str, metering_url: str, dagster_url: str) -> Tally:
    """The command line, in an installation on the test server."""
    variables = environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=reporting_url,
        TALLY_METERING_URL=metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )
    return lambda *arguments: run(variables, *arguments)


def share(number: int) -> dict[str, object]:
    """An event of a type that nobody knows."""
    return event(str(number), "01T00:00:00", "share.create.end", f"s-{number}", resource_type="share")


def test_rejected_events_are_mended_on_the_command_line(tally: Tally, reporting: Connection) -> None:
    """Listed, shown byte for byte, replayed in vain, and replayed after the mending."""
    for sent in (share(1), share(2), b"\xff{"):
        send(reporting, sent)
    listed = tally("rejected", "list", "--reason", "unknown_resource_type", "--limit", "1")
    assert (listed.status, listed.out.count("share"), listed.out.count("'openstack.share'")) == (0, 1, 1)
    assert "--before 2" in listed.err
    assert "'openstack.share'" in tally("rejected", "list", "--before", "2").out
    assert tally("rejected", "show", "3").out.encode("utf-8", "surrogateescape") == b"\xff{"
    unknown = tally("rejected", "show", "17")
    told = "tally: there is no dead letter 17; list the rejected events to see their ids"
    assert (unknown.status, unknown.error) == (1, told)

    vain = tally("rejected", "replay", "--reason", "unknown_resource_type")
    assert (vain.status, vain.out) == (
        1,
        "accepted 0, deduplicated 0, rejected 2\n  unknown_resource_type: 2\n",
    )
    define_type(reporting, "openstack", "share", {"lifecycle": {"share.create.end": "create"}}, "test")
    assert tally("rejected", "replay", "--id", "1").out == "accepted 1, deduplicated 0, rejected 0\n"
    done = tally("rejected", "replay", "--reason", "unknown_resource_type")
    assert (done.status, done.out) == (0, "accepted 1, deduplicated 0, rejected 0\n")
    assert stored(reporting) == ["1", "2"]
    assert tally("rejected", "list", "--reason", "unknown_resource_type").out == "none\n"
    assert tally("rejected", "list", "--all").out.count("\n") == 5


@pytest.mark.parametrize(
    "arguments",
    [(), ("--id", "1", "--reason", "clock_skew"), ("--id", "1", "--cloud", "x"), ("--cloud", "x"), ("--id", "0")],
)
def test_a_replay_says_of_what(tally: Tally, arguments: tuple[str, ...]) -> None:
    """There is no replay of everything by accident."""
    done = tally("rejected", "replay", *arguments)
    assert (done.status, "--id" in done.err) == (2, True)


def test_the_projection_is_rebuilt_on_the_command_line(tally: Tally, reporting: Connection) -> None:
    """Of one cloud, or of all; timelines, and events that a metering database lacks, are left to the next close."""
    send(reporting, *(volume("1", "01T00:00:00", CREATE, 10, cloud=cloud) for cloud in ("a", "b")))
    before = projection(reporting)
    reporting.execute("update reporting.current_resources set state = 'spoiled'")
    assert tally("rebuild", "--cloud", "a").out == "replayed 1 resources\n"
    assert projection(reporting) != before
    assert tally("rebuild").out == "replayed 2 resources\n"
    assert projection(reporting) == before
    assert current(reporting)["state"] == "available"
    unknown = tally("rebuild", "--cloud", "c")
    assert (unknown.status, unknown.error) == (
        1,
        "tally: there is no cloud c; tally cloud list names those that there are",
    )
    told = tally("rebuild", "--timelines")
    assert (told.status, told.out) == (0, "the next close derives all timelines again: tally close PERIOD\n")
    told = tally("rebuild", "--events")
    assert (told.status, told.out.split(": ")[1]) == (0, "0\nbatches put back for the metering database")
    for both in (("--timelines", "--cloud", "a"), ("--events", "--cloud", "a"), ("--events", "--timelines")):
        refused = tally("rebuild", *both)
        assert (refused.status, "exclude each other" in refused.err) == (2, True)
