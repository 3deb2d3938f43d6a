"""The lifecycle of a resource is its timeline: what the API shows of one is what dbt derives of all (rules 8 to 10)."""

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.domain.errors import NotFound
from tally.domain.lifecycle import Lifecycle
from tally.services import runs
from tally.services.event_queries import get_lifecycle
from tally.services.ingest import Ingest
from tally.store.database import Connection
from tests import histories
from tests.histories import Resource, World
from tests.integration.metering_sql import meter

NOW = datetime(2026, 5, 1, tzinfo=UTC)
TIMELINES = "+int_proved_lives"
example_numbers = count(1)

# One database serves all examples of a test: each example has other clouds, and events are append-only.
shared_database = settings(
    deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)


@st.composite
def new_worlds(draw: st.DrawFn, min_resources: int = 1) -> World:
    """A world in clouds that no other example has."""
    return histories.renamed(draw(histories.worlds(min_resources)), str(next(example_numbers)))


def ingest(reporting: Connection, world: World) -> None:
    """Send all events of a world; each must be accepted."""
    service = Ingest(reporting, clock=lambda: NOW, clock_skew=timedelta(minutes=5), actor="test")
    events = [histories.tally_event(resource, record) for resource, history in world.items() for record in history]
    outcomes = service.ingest([histories.as_sent(event) for event in events])
    assert {outcome.status for outcome in outcomes} == {"accepted"}


def shown(reporting: Connection, world: World) -> dict[Resource, Lifecycle]:
    """The lifecycle of each resource that has one."""
    found = {}
    for resource in world:
        try:
            found[resource] = get_lifecycle(reporting, resource, visible=None).lifecycle
        except NotFound:
            continue
    return found


def test_the_lifecycle_is_the_timeline_of_dbt_row_for_row(reporting: Connection, metering: Connection) -> None:
    """Lives, configurations, boundaries and the events at them, zero-length last configurations included."""
    histories.register(reporting)

    @settings(shared_database, max_examples=4)
    @given(new_worlds(min_resources=12))
    def holds(world: World) -> None:
        ingest(reporting, world)
        run = meter(reporting, metering, select=TIMELINES)
        assert timelines(metering, world) == {
            resource: rows for resource, whole in shown(reporting, world).items() if (rows := rows_of(whole))
        }
        runs.fail(metering, run.id, "of no further interest")

    holds()


def test_the_lifecycle_ends_with_the_row_of_the_inventory(reporting: Connection) -> None:
    """Rule 11: what is current is what current_resources says."""
    histories.register(reporting)

    @settings(shared_database, max_examples=40)
    @given(new_worlds(min_resources=4))
    def holds(world: World) -> None:
        ingest(reporting, world)
        assert inventory(reporting, world) == {
            resource: current_of(whole) for resource, whole in shown(reporting, world).items()
        }

    holds()


def timelines(metering: Connection, world: World) -> dict[Resource, list[tuple[Any, ...]]]:
    """What dbt derived, in the order of each timeline."""
    rows = metering.execute(
        """select cloud, resource_type, resource_id, lifetime_no, open_left, from_ts, to_ts, project_id, state, size,
               from_event_id, to_event_id
           from metering.int_resource_intervals where cloud = any(%s)
           order by lifetime_no, from_ts, to_ts""",
        [list({resource[0] for resource in world})],
    )
    found: dict[Resource, list[tuple[Any, ...]]] = {}
    for cloud, resource_type, resource_id, *row in rows:
        found.setdefault((cloud, resource_type, resource_id), []).append(tuple(row))
    return found


def rows_of(whole: Lifecycle) -> list[tuple[Any, ...]]:
    """The same of a lifecycle."""
    return [
        (
            life.no,
            life.open_left,
            each.from_ts,
            each.to_ts,
            each.project_id,
            each.state,
            each.size,
            each.caused_by.event_id,
            each.ended_by.event_id if each.ended_by else None,
        )
        for life in whole.lifetimes
        for each in life.configurations
    ]


def inventory(reporting: Connection, world: World) -> dict[Resource, tuple[Any, ...]]:
    """What the projection says."""
    rows = reporting.execute(
        """select cloud, resource_type, resource_id, project_id, state, size::text, created_at, deleted_at,
               last_event_id, last_event_type, last_event_at
           from reporting.current_resources where cloud = any(%s)""",
        [list({resource[0] for resource in world})],
    )
    return {
        (cloud, resource_type, resource_id): (*row[:2], json.loads(row[2], parse_float=Decimal), *row[3:])
        for cloud, resource_type, resource_id, *row in rows
    }


def current_of(whole: Lifecycle) -> tuple[Any, ...]:
    """The same of a lifecycle."""
    row = whole.current
    assert row is not None
    return (
        row.project_id,
        row.state,
        row.size,
        row.created_at,
        row.deleted_at,
        row.last_event_id,
        row.last_event_type,
        row.last_event_at,
    )
