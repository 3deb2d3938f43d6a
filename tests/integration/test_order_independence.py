"""Order independence: whatever the order of arrival, Tally holds what the model says (DESIGN.md rules 1 and 8 to 15).

Random histories go through the ingest service in random order, split into random batches, with duplicates in another
spelling. Each example brings clouds of its own, so that all share one database as they would in life.
"""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any
from uuid import UUID

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.services import runs
from tally.services.ingest import Ingest
from tally.store.database import Connection
from tests import histories
from tests.histories import Resource, World
from tests.integration.metering_sql import meter
from tests.model import Anomaly, Interval, Model, Record, Usage

pytestmark = pytest.mark.slow

NOW = datetime(2026, 5, 1, tzinfo=UTC)
Arrival = Sequence[Sequence[tuple[tuple[Resource, Record], bool]]]

# One database serves all examples of a test: each example has other clouds, and events are append-only.
shared_database = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
# The same for what goes through dbt as well, which costs seconds an example: fewer examples, of more resources.
derived_database = settings(shared_database, max_examples=6)
example_numbers = count(1)

MARCH = (datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC))


@st.composite
def arriving_worlds(draw: st.DrawFn, min_resources: int = 4) -> tuple[World, Arrival]:
    """A world and the way in which its events arrive."""
    world = histories.renamed(draw(histories.worlds(min_resources)), str(next(example_numbers)))
    events = [(resource, record) for resource, history in world.items() for record in history]
    return world, draw(histories.arrivals(events))


def ingest(reporting: Connection, arrival: Arrival) -> list[str]:
    """Send the batches one after the other and return the status of each event, in the order of arrival."""
    service = Ingest(reporting, clock=lambda: NOW, clock_skew=timedelta(minutes=5), actor="test")
    statuses: list[str] = []
    for batch in arrival:
        raws = [
            (histories.as_sent_again if repeated else histories.as_sent)(histories.tally_event(resource, record))
            for (resource, record), repeated in batch
        ]
        statuses += [outcome.status for outcome in service.ingest(raws)]
    return statuses


def projection(reporting: Connection, resource: Resource) -> tuple[Any, ...] | None:
    """(created_at, deleted_at, project_id, last_state, size, state) of a resource; None if it never lived."""
    row = reporting.execute(
        """
        select created_at, deleted_at, project_id, last_state, size::text, state
        from reporting.current_resources
        where (cloud, resource_type, resource_id) = (%s, %s, %s) and created_at is not null
        """,
        resource,
    ).fetchone()
    if row is None:
        return None
    return (*row[:4], json.loads(row[4], parse_float=Decimal), row[5])


def expected_projection(history: Sequence[Record]) -> tuple[Any, ...] | None:
    """The same of the model."""
    current = Model(history).current
    if current is None:
        return None
    last = current.configuration
    state = last.state if current.deleted_at is None else "deleted"
    return (current.created_at, current.deleted_at, last.project_id, last.state, last.size, state)


def test_projection_is_that_of_the_model_in_every_order_of_arrival(reporting: Connection) -> None:
    """Rules 1 and 11: each event counts once, and folding in order or rebuilding gives the same row."""
    histories.register(reporting)

    @shared_database
    @given(arriving_worlds())
    def holds(arriving: tuple[World, Arrival]) -> None:
        world, arrival = arriving
        statuses = ingest(reporting, arrival)
        repeated = [again for batch in arrival for _, again in batch]
        assert statuses == ["deduplicated" if again else "accepted" for again in repeated]
        for resource, history in world.items():
            assert projection(reporting, resource) == expected_projection(history), resource

    holds()


def test_timelines_and_usage_are_those_of_the_model_in_every_order_of_arrival(
    reporting: Connection, metering: Connection
) -> None:
    """Rules 8 to 15: intervals, anomalies and usage of March; what came after a first run is derived incrementally."""
    histories.register(reporting)

    @derived_database
    @given(arriving_worlds(min_resources=10))
    def holds(arriving: tuple[World, Arrival]) -> None:
        world, arrival = arriving
        half = len(arrival) // 2
        ingest(reporting, arrival[:half])
        abandon(metering, meter(reporting, metering).id)
        ingest(reporting, arrival[half:])
        run = meter(reporting, metering)
        models = {resource: Model(history) for resource, history in world.items()}
        assert intervals(metering, world) == {
            resource: shown(m.intervals) for resource, m in models.items() if m.intervals
        }
        assert lifetimes(metering, world) == {
            resource: [(life.no, life.opened_at, life.closed_at, life.open_left) for life in m.lifetimes]
            for resource, m in models.items()
            if m.lifetimes
        }
        assert usage(metering, world) == {
            resource: shown_usage(m.usage(*MARCH)) for resource, m in models.items() if m.usage(*MARCH)
        }
        assert anomalies(metering, world) == {
            resource: found for resource, m in models.items() if (found := in_march(m, m.anomalies))
        }
        abandon(metering, run.id)

    holds()


def test_a_life_that_updates_open_is_open_left_and_told_in_the_month_in_which_it_does(
    reporting: Connection, metering: Connection
) -> None:
    """Rule 9: however many updates come at its first instant, be it the first of the month, and however short it is."""
    histories.register(reporting)
    middle, before = datetime(2026, 3, 10, tzinfo=UTC), datetime(2026, 2, 28, tzinfo=UTC)
    opened = {
        "at the beginning": [Record(MARCH[0], event_id, "update") for event_id in ("a", "b")],
        "of no length": [Record(middle, "c", "update"), Record(middle, "d", "delete")],
        "before": [Record(before, "e", "update")],
        "at the end": [Record(MARCH[1], "f", "update")],
    }
    world = {("alpha", "thing", name): history for name, history in opened.items()}
    ingest(reporting, [[((resource, each), False) for resource, history in world.items() for each in history]])
    meter(reporting, metering)
    found = metering.execute("select distinct open_left from metering.int_resource_intervals").fetchall()
    assert [life.open_left for history in opened.values() for life in Model(history).lifetimes] == [True] * 4
    assert found == [(True,)]
    told = metering.execute("select subject from metering.int_findings where kind = 'open_left' order by 1").fetchall()
    assert told == [("at the beginning",), ("of no length",)]


def abandon(metering: Connection, run_id: UUID) -> None:
    """End a run of which only the timelines and the usage were wanted."""
    runs.fail(metering, run_id, "of no further interest")


def intervals(metering: Connection, world: World) -> dict[Resource, list[Any]]:
    """The timelines as dbt derived them, those of zero length left out."""
    return _by_resource(
        metering,
        world,
        """select cloud, resource_type, resource_id, lifetime_no, from_ts, to_ts, project_id, state, size
           from metering.int_resource_intervals
           where cloud = any(%s) and from_ts is distinct from to_ts order by from_ts, lifetime_no""",
    )


def lifetimes(metering: Connection, world: World) -> dict[Resource, list[Any]]:
    """The lives from which the coverage check counts, those of zero length included."""
    return _by_resource(
        metering,
        world,
        """select cloud, resource_type, resource_id, lifetime_no, opened_at, closed_at, open_left
           from metering.int_lifetimes where cloud = any(%s) order by lifetime_no""",
    )


def shown(found: Sequence[Interval]) -> list[Any]:
    """The same of the model."""
    return [(i.lifetime_no, i.from_ts, i.to_ts, *_configuration(i)) for i in found]


def usage(metering: Connection, world: World) -> dict[Resource, list[Any]]:
    """The usage records of the running run, with their exact length."""
    return _by_resource(
        metering,
        world,
        """select cloud, resource_type, resource_id, lifetime_no, from_ts, to_ts, project_id, state, size,
               length_us, counters
           from metering.int_usage_records where cloud = any(%s) order by from_ts, lifetime_no""",
    )


def shown_usage(found: Sequence[Usage]) -> list[Any]:
    """The same of the model."""
    return [(u.lifetime_no, u.from_ts, u.to_ts, *_configuration(u), u.length_us, u.counters) for u in found]


def anomalies(metering: Connection, world: World) -> dict[Resource, set[tuple[str, str]]]:
    """(kind, event_id) of the events that are reported and not counted."""
    rows = metering.execute(
        """select f.cloud, f.resource_type, e.resource_id, split_part(f.detail, ':', 1), f.subject
           from metering.int_findings as f
           inner join raw.events as e
               on e.cloud = f.cloud and e.resource_type = f.resource_type and e.event_id = f.subject
           where f.kind = 'anomaly' and f.cloud = any(%s)""",
        [list({resource[0] for resource in world})],
    ).fetchall()
    found: dict[Resource, set[tuple[str, str]]] = {}
    for *resource, kind, event_id in rows:
        found.setdefault((resource[0], resource[1], resource[2]), set()).add((kind, event_id))
    return found


def in_march(model: Model, found: Sequence[Anomaly]) -> set[tuple[str, str]]:
    """The same of the model, as far as it lies in March."""
    instants = {record.event_id: record.timestamp for record in model.history}
    return {(a.kind, a.event_id) for a in found if MARCH[0] <= instants[a.event_id] < MARCH[1]}


def _configuration(of: Interval | Usage) -> tuple[Any, ...]:
    return (of.configuration.project_id, of.configuration.state, of.configuration.size)


def _by_resource(metering: Connection, world: World, query: str) -> dict[Resource, list[Any]]:
    found: dict[Resource, list[Any]] = {}
    for cloud, resource_type, resource_id, *row in metering.execute(
        query.encode(), [list({resource[0] for resource in world})]
    ):
        found.setdefault((cloud, resource_type, resource_id), []).append(tuple(row))
    return found
