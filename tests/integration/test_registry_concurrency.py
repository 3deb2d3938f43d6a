"""Definitions that change while events arrive: nobody folds an event by a definition that no longer holds (rule 22)."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import cycle

from tally.services.projection import rebuild
from tally.services.registry import define_type
from tally.store.database import Connection, connected
from tests.integration.sending import count, current, door, event, projection, raw, statuses
from tests.integration.test_ingest_concurrency import wait_until_somebody_waits

THING = {"platform": "test", "cloud": "t", "resource_type": "thing"}


def definition(state: str, *names: str) -> dict[str, object]:
    """A lifecycle in which creations imply a state."""
    return {"lifecycle": {name: {"effect": "create", "state": state} for name in ("a", *names)}}


def change(session: Connection, state: str, *names: str) -> None:
    """Let another state hold."""
    define_type(session, "test", "thing", definition(state, *names), "test", accept_invalidation="test")


def thing(number: int) -> bytes:
    """The creation of a thing."""
    return raw(event(str(number), "01T00:00:00", "a", f"t-{number}", **THING))


@contextmanager
def meanwhile(url: str, task: Callable[[Connection], object]) -> Iterator[None]:
    """Run a task in a session and a thread of its own during a block, and wait for its end."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with connected(url) as session:
                task(session)
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if errors:
        raise errors[0]


def assert_replayed(reporting: Connection) -> None:
    """The projection is what the events say by the registry of now."""
    found = projection(reporting)
    rebuild(reporting)
    assert projection(reporting) == found


def test_a_change_waits_for_the_batches_before_it(reporting: Connection, reporting_url: str) -> None:
    """What they store is seen by the change, and folded again by the new definition."""
    change(reporting, "before")
    with connected(reporting_url) as sender:
        with sender.transaction():
            assert statuses(door(sender).ingest([thing(1)])) == ["accepted"]
            with_change = meanwhile(reporting_url, lambda session: change(session, "after"))
            with_change.__enter__()
            wait_until_somebody_waits(reporting)
        with_change.__exit__(None, None, None)
    assert_replayed(reporting)


def test_a_batch_after_a_change_is_judged_by_it(reporting: Connection, reporting_url: str) -> None:
    """A session that has judged by the former definition judges again, without a word from anybody."""
    change(reporting, "before")
    with connected(reporting_url) as sender:
        sink = door(sender)
        sink.ingest([thing(1)])
        change(reporting, "after", "b")
        assert (
            statuses(sink.ingest([thing(2), raw(event("3", "01T00:00:00", "b", "t-3", **THING))])) == ["accepted"] * 2
        )
    assert [current(reporting, f"t-{number}")["state"] for number in (1, 2, 3)] == ["after"] * 3


def test_the_projection_follows_the_registry_while_events_arrive(reporting: Connection, reporting_url: str) -> None:
    """Two senders, a definition that changes all the time, and a rebuild: the projection ends as what is replayed."""
    change(reporting, "on")
    done = threading.Event()

    def sending(first: int) -> Callable[[Connection], None]:
        def task(session: Connection) -> None:
            for start in range(first, 1200, 60):
                outcomes = door(session).ingest([thing(number) for number in range(start, start + 30)])
                assert statuses(outcomes) == ["accepted"] * 30

        return task

    def changing(session: Connection) -> None:
        for state in cycle(("off", "on")):
            change(session, state)
            if done.is_set():
                return

    def rebuilding(session: Connection) -> None:
        while not done.is_set():
            rebuild(session, "t")

    with meanwhile(reporting_url, changing), meanwhile(reporting_url, rebuilding):
        try:
            with meanwhile(reporting_url, sending(0)), meanwhile(reporting_url, sending(30)):
                pass
        finally:
            done.set()
    assert count(reporting, "current_resources") == 1200
    assert_replayed(reporting)
