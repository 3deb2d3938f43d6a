"""Reconciliation converges, whatever events and listing are, whoever writes meanwhile, and however often it dies.

The properties hold for random histories and random listings; the rest is one process that dies and one that goes on.
"""

import threading
from collections.abc import Sequence
from datetime import datetime, timedelta
from itertools import count as counting
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.domain.errors import Unavailable
from tally.domain.inventory import Answer, Gap, Listed, Unknown
from tally.domain.timeline import Projection
from tally.services.projection import rebuild
from tally.services.reconcile import SyncReport, sync
from tally.store.database import Connection, connected
from tally.store.reporting.projection import rows
from tests import histories
from tests.histories import INSTANTS, RESOURCE_TYPES, SIZES, STATES, World
from tests.integration.fake_platform import Platform, disk, volumes
from tests.integration.sending import CLOUD, CREATE, NOW, count, door, projection, raw, send, volume

# One database serves all examples of a test: each example has other clouds, and events are append-only.
shared_database = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
example_numbers = counting(1)
LATER = timedelta(minutes=20)
IDS = ("1", "2", "3", "4")


def instants() -> st.SearchStrategy[datetime | None]:
    """None, those of the events, one that is in the future, one that was never set."""
    return st.none() | st.sampled_from([*INSTANTS, NOW + timedelta(days=1), NOW.replace(year=1970)])


@st.composite
def listed(draw: st.DrawFn, resource_id: str) -> Listed:
    """A resource as some platform lists it, telling more or less."""
    return Listed(
        resource_id,
        draw(st.sampled_from(("p1", "p2"))),
        draw(st.none() | st.sampled_from(STATES).map(str.upper)),
        draw(st.none() | st.sampled_from(SIZES)),
        draw(instants()),
        draw(instants()),
        draw(st.none() | st.sampled_from(INSTANTS)),
    )


@st.composite
def platforms(draw: st.DrawFn, extra: st.SearchStrategy[list[Answer]]) -> Platform:
    """A platform that lists some resources of each type, and more answers."""
    answers: dict[str, Sequence[Answer]] = {}
    for resource_type in RESOURCE_TYPES:
        ids = [name for name in IDS if draw(st.integers(0, 3))]  # most of them
        answers[resource_type] = draw(st.permutations([*(draw(listed(name)) for name in ids), *draw(extra)]))
    return Platform(answers)


def brought(reporting: Connection, world: World) -> World:
    """Send a world under names of its own."""
    world = histories.renamed(world, str(next(example_numbers)))
    events = [histories.tally_event(resource, record) for resource, history in world.items() for record in history]
    outcomes = door(reporting).ingest([histories.as_sent(event) for event in events])
    assert {outcome.status for outcome in outcomes} == {"accepted"}
    return world


def reconcile(reporting: Connection, cloud: str, platform: Platform, now: datetime = NOW, **more: Any) -> SyncReport:
    """Sync a cloud, whatever it would delete."""
    return sync(
        reporting, cloud, platform, clock=lambda: now, clock_skew=timedelta(minutes=5), max_deleted_percent=100,
        actor="test", **more,
    )  # fmt: skip


def inventory(reporting: Connection, cloud: str) -> dict[tuple[str, str, str], Projection]:
    """The projection of a cloud, with the ids that tests use."""
    return rows(reporting, [(cloud, resource_type, name) for resource_type in RESOURCE_TYPES for name in IDS])


def agrees(answer: Listed | None, row: Projection | None) -> bool:
    """Whether the inventory says what a listing says of a resource."""
    if answer is None or answer.deleted_at is not None:
        return row is None or not row.open
    return (
        row is not None
        and row.open
        and row.project_id == answer.project_id
        and (answer.state is None or row.last_state == answer.state.lower())
        and (answer.size is None or row.size == answer.size)
    )


def test_after_a_sync_the_inventory_is_what_was_listed(reporting: Connection) -> None:
    """And a second one finds nothing to write; the projection is the fold of the history."""
    histories.register(reporting)

    @shared_database
    @given(histories.worlds(min_resources=6), platforms(st.just([])))
    def holds(world: World, platform: Platform) -> None:
        for cloud in {cloud for cloud, _, _ in brought(reporting, world)}:
            assert reconcile(reporting, cloud, platform).status == "completed"
            found = inventory(reporting, cloud)
            for resource_type, answers in platform.answers.items():
                said = {answer.resource_id: answer for answer in answers if isinstance(answer, Listed)}
                for name in IDS:
                    assert agrees(said.get(name), found.get((cloud, resource_type, name)))
            again = reconcile(reporting, cloud, platform, NOW + LATER)
            assert [again.total(number) for number in ("created", "updated", "deleted", "skipped")] == [0, 0, 0, 0]
            rebuild(reporting, cloud)
            assert inventory(reporting, cloud) == found

    holds()
    assert count(reporting, "rejected_events") == 0


def test_what_a_platform_cannot_tell_closes_and_changes_nothing(reporting: Connection) -> None:
    """With a gap and an unknown, which comes last: what is not listed, and what is unknown, is as before."""
    histories.register(reporting)

    @shared_database
    @given(histories.worlds(min_resources=6), platforms(st.just([Gap("503")])))
    def holds(world: World, listing: Platform) -> None:
        platform = Platform({name: [*answers, Unknown("3")] for name, answers in listing.answers.items()})
        for cloud in {cloud for cloud, _, _ in brought(reporting, world)}:
            before = inventory(reporting, cloud)
            told = {
                (cloud, resource_type, answer.resource_id)
                for resource_type, answers in platform.answers.items()
                for answer in answers
                if isinstance(answer, Listed) and answer.resource_id != "3"
            }
            assert reconcile(reporting, cloud, platform).status == "incomplete"
            after = inventory(reporting, cloud)
            for resource in (before.keys() | after.keys()) - told:
                assert after.get(resource) == before.get(resource)

    holds()


def test_a_sync_that_dies_leaves_whole_chunks_and_the_next_goes_on(reporting: Connection, reporting_url: str) -> None:
    """The server ends the session after the first chunk: what is written stays, the rest comes with the next sync."""
    send(reporting, volume("c", "01T00:00:00", CREATE, 10))
    platform = volumes(disk(state=None), *(disk(f"n-{no:04d}") for no in range(1200)))
    with connected(reporting_url) as dying:
        pid = dying.info.backend_pid

        def die(_: object) -> None:
            reporting.execute("select pg_terminate_backend(%s, 5000)", [pid])

        with pytest.raises(Unavailable, match="sync again"):
            reconcile(dying, CLOUD, platform, told=die)
    assert 1 < count(reporting, "current_resources") < 1201
    assert reporting.execute("select status from reporting.syncs").fetchall() == [("running",)]
    written = count(reporting, "events")
    report = reconcile(reporting, CLOUD, platform, NOW + LATER)
    assert (report.status, report.total("created")) == ("completed", 1201 - written)
    assert_whole(reporting)


def test_syncs_and_collectors_write_at_once(reporting: Connection, reporting_url: str) -> None:
    """Nothing is lost, doubled or stuck; when the collectors are done, one more sync makes the inventory agree."""
    names = [f"v-{no:03d}" for no in range(60)]
    events = [
        raw(volume(f"{name}/{step}", f"{step + 1:02d}T00:00:00", CREATE if step == 0 else "volume.resize.end",
                   10 * (step + 1), resource_id=name))
        for step in range(8)
        for name in names
    ]  # fmt: skip
    send(reporting, events[0])
    failed: list[Exception] = []

    def collect() -> None:
        try:
            with connected(reporting_url) as own:
                for start in range(0, len(events), 7):
                    door(own).ingest(events[start : start + 7])
        except Exception as error:  # noqa: BLE001 - the test looks at it
            failed.append(error)

    collectors = [threading.Thread(target=collect) for _ in range(2)]
    platform = volumes(*(disk(name, 15) for name in names[:40]))
    for thread in collectors:
        thread.start()
    now, syncs = NOW, 0
    while any(thread.is_alive() for thread in collectors):
        reconcile(reporting, CLOUD, platform, now)
        now, syncs = now + LATER, syncs + 1
    for thread in collectors:
        thread.join()
    reconcile(reporting, CLOUD, platform, now)
    assert (failed, syncs > 0) == ([], True)
    assert count(reporting, "rejected_events") == 0
    collected = reporting.execute("select count(*) from reporting.events where source = 'collector'").fetchone()
    assert collected == (len(events),)
    still_open = reporting.execute(
        "select resource_id from reporting.current_resources where deleted_at is null and size = '{\"size_gb\": 15}'"
        " order by resource_id"
    ).fetchall()
    assert [name for (name,) in still_open] == names[:40]
    assert_whole(reporting)


def assert_whole(reporting: Connection) -> None:
    """The projection is the fold of the history, and every event is in a batch of the outbox."""
    found = projection(reporting)
    rebuild(reporting)
    assert projection(reporting) == found
    announced = reporting.execute(
        "select count(*) from reporting.event_ids inner join reporting.pending_batches using (batch_id)"
    ).fetchone()
    assert announced == (count(reporting, "events"),)
