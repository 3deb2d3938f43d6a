"""A month is read without the months before it: what a year has brought makes no close slower (rule 12).

The server counts the events that it looks at, so that it holds on any machine.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tally.domain.event import Event
from tally.domain.period import BillingPeriod
from tally.services import runs
from tally.store.database import Connection
from tally.store.metering.handover import Taken, remember
from tally.store.metering.load import refresh_statistics
from tests.bench.events import END, copy_raw, events
from tests.conftest import fresh_databases
from tests.integration.metering_sql import NOW, compiled_expression, dbt

COUNT = 4_000  # in two months
LOADS = 8
PERIOD = BillingPeriod.parse("2026-03")
OF_PERIOD = """with run as (select * from {{ ref('stg_runs') }})
    select events.event_id, events.effect from {{ events_of_period('events') }}"""


def earlier(months: int) -> Iterator[Event]:
    """What others did some months earlier."""
    for event in events(COUNT, COUNT // 25, seed=months + 1):
        yield replace(event, timestamp=event.timestamp - timedelta(days=30 * months))


@pytest.fixture(scope="module")
def history(
    server_url: str, reporting_template: str, metering_template: str, tally_home: None  # noqa: ARG001
) -> Iterator[Connection]:
    """A metering database to which several loads have brought two months each, and a run of the last one."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        bring_in(reporting, metering)
        yield metering


def bring_in(reporting: Connection, metering: Connection) -> None:
    for load_id in range(1, LOADS + 1):
        copy_raw(metering, sorted(earlier(2 * (LOADS - load_id)), key=by_key), load_id)
    remember(reporting, Taken(LOADS, END))
    refresh_statistics(metering)
    with runs.metering_lock(metering):
        run = runs.start(reporting, metering, PERIOD, lambda: NOW)
        dbt(metering, "run", run, "stg_runs stg_lifecycles stg_events")


def test_the_events_of_a_month_are_found_without_reading_the_history(history: Connection) -> None:
    """They came with the last of several loads; those of the loads before are of months before."""
    found, read = looked_at(history, compiled_expression(history, OF_PERIOD))
    assert found > COUNT / 3
    assert read < COUNT * LOADS / 2, "and what shares a range of pages with it"


def test_no_look_up_by_key_reads_the_index_of_arrival_beside_it(history: Connection) -> None:
    """It is read whole each time, and says of one resource nothing: so no plan can use it for the loads of a run.

    With every other way to the events switched off, the planner takes it where it can, as it does for a month.
    """
    of_period = compiled_expression(history, OF_PERIOD)
    with history.transaction(force_rollback=True):
        for way in ("seqscan", "indexscan", "indexonlyscan", "hashjoin", "mergejoin"):
            history.execute(f"set local enable_{way} = off".encode())
        assert "events_arrival" in planned(history, of_period)
        assert "events_arrival" not in planned(history, "select event_id from staging.stg_events")


def planned(metering: Connection, query: str) -> str:
    return "\n".join(line for (line,) in metering.execute(f"explain {query}".encode()))


def by_key(event: Event) -> tuple[object, ...]:
    """The order in which a load writes."""
    return (*event.resource, event.timestamp, event.event_id)


def looked_at(metering: Connection, query: str) -> tuple[int, int]:
    """How many events a query finds, and how many it looks at."""
    row = metering.execute(f"explain (analyze, format json) {query}".encode()).fetchone()
    assert row is not None
    [plan] = [node for node in nodes(row[0][0]["Plan"]) if node.get("Relation Name") == "events"]
    removed = sum(value for name, value in plan.items() if name.startswith("Rows Removed"))
    return int(plan["Actual Rows"]), int(plan["Actual Rows"] + removed)


def nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A plan and all below it."""
    yield plan
    for child in plan.get("Plans", ()):
        yield from nodes(child)
