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

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.services.ingest import Ingest
from tally.store.database import Connection
from tests import histories
from tests.histories import Resource, World
from tests.model import Model, Record

NOW = datetime(2026, 5, 1, tzinfo=UTC)
Arrival = Sequence[Sequence[tuple[tuple[Resource, Record], bool]]]

# One database serves all examples of a test: each example has other clouds, and events are append-only.
shared_database = settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
example_numbers = count(1)


@st.composite
def arriving_worlds(draw: st.DrawFn) -> tuple[World, Arrival]:
    """A world and the way in which its events arrive."""
    world = histories.renamed(draw(histories.worlds(min_resources=4)), str(next(example_numbers)))
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
