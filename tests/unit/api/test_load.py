"""What a process takes on at once, and how it refuses more."""

import pytest

from tally.api.load import Load
from tally.api.problems import Problem


def test_requests_beyond_the_limit_are_refused_at_once() -> None:
    """503 with the time after which to try again; one that has ended makes room."""
    load = Load(requests=2, body_bytes=0)
    with load.request():
        with load.request(), pytest.raises(Problem) as caught, load.request():
            pass
        with load.request():
            pass
    assert (caught.value.status, caught.value.slug) == (503, "unavailable")
    assert caught.value.headers == {"Retry-After": "1"}


def test_a_request_that_fails_makes_room_too() -> None:
    """Whatever ends it."""
    load = Load(requests=1, body_bytes=0)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), load.request():
            raise ZeroDivisionError


def test_one_request_at_a_time_reads_a_whole_month() -> None:
    """Another one is refused at once, and let in when the first has ended, however it ended."""
    load = Load(requests=9, body_bytes=0)
    with load.whole_month(), pytest.raises(Problem, match="whole month"), load.whole_month():
        pass
    for _ in range(2):
        with pytest.raises(ZeroDivisionError), load.whole_month():
            raise ZeroDivisionError


def test_bodies_beyond_the_limit_are_refused() -> None:
    """All of those in flight together."""
    load = Load(requests=9, body_bytes=100)
    load.take(60)
    load.take(40)
    with pytest.raises(Problem, match="bodies"):
        load.take(1)
    load.give_back(40)
    load.take(40)
