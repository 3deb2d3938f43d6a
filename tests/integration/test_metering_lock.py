"""One run meters at a time; who waits for another is told so, once, and not for ever."""

from datetime import timedelta
from threading import Timer

import pytest
from dagster import build_init_resource_context

from resources.databases import Databases, Metering
from tally.domain.errors import Unavailable
from tally.services.runs import WAITING, metering_lock
from tally.store.database import Connection, connected
from tally.store.metering.runs import try_metering_lock


def test_who_waits_for_another_run_is_told_once(metering: Connection, metering_url: str) -> None:
    """Nobody looks at a command that says nothing, and wonders."""
    told: list[str] = []
    with (
        connected(metering_url) as other,
        metering_lock(other),
        pytest.raises(Unavailable, match="another run has been metering for more than"),
        metering_lock(metering, timedelta(seconds=0.5), told.append),
    ):
        pass
    assert told == [WAITING]


def test_who_need_not_wait_is_told_nothing(metering: Connection) -> None:
    """A run alone has the right at once."""
    told: list[str] = []
    with metering_lock(metering, say=told.append):
        assert told == []


def test_a_run_of_dagster_that_waits_says_so_in_its_log(
    metering_url: str, reporting_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """From there the command line has it; then the run goes on."""
    resource = Metering(databases=Databases(metering_url=metering_url, reporting_url=reporting_url))
    context = build_init_resource_context()
    assert context.log is not None
    context.log.addHandler(caplog.handler)
    with connected(metering_url) as other:
        assert try_metering_lock(other)
        release = Timer(0.5, other.close)
        release.start()
        with resource.yield_for_execution(context) as held:
            assert not held.connection.closed
        release.join()
    assert caplog.text.count(WAITING) == 1
