"""One run meters at a time; who waits for another is told so, once, and not for ever."""

from datetime import timedelta

import pytest

from tally.domain.errors import Unavailable
from tally.services.runs import WAITING, metering_lock
from tally.store.database import Connection, connected


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
