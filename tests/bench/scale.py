"""A large cloud: two months of it, closed once, corrected once and gone on with for a year, on one data set.

The job close_month is measured in a process of its own, so that its peak of memory is its own, with those of what it
starts. What it is compared with is measured in the same databases, right after it. TALLY_BENCH_EVENTS says another size
than 5 million events.
"""

import multiprocessing
import os
import time
import zlib
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from tally.domain.errors import TallyError
from tally.domain.event import Event
from tally.domain.period import BillingPeriod
from tally.services import runs
from tally.services.finalize import finalize
from tally.services.projection import fold, rebuild, transition_of
from tally.services.registry import current_registry
from tally.store.database import Connection, connected
from tests.bench.close_vs_copy import EVENTS_PER_RESOURCE, NOW, PERIOD, close, copy_limit, result
from tests.bench.databases import database
from tests.bench.events import copy_reporting, events
from tests.bench.timeline_vs_duckdb import derive_timelines, duckdb_seconds
from tests.integration.closing import House
from tests.integration.metering_sql import dbt
from tests.integration.sending import send

EVENTS = int(os.environ.get("TALLY_BENCH_EVENTS", "5000000"))
MARCH = BillingPeriod.parse(PERIOD)
APRIL = BillingPeriod.parse("2026-04")
IN_MAY = datetime(2026, 5, 20, tzinfo=UTC)
MEMORY_MB = 500


def run(server_url: str, count: int = EVENTS) -> list[dict[str, object]]:
    """Measure all for ``count`` events over a 25th of as many resources."""
    with database(server_url, "reporting") as reporting_url, database(server_url, "metering") as metering_url:
        house = House(reporting_url, metering_url)
        with connected(reporting_url) as reporting, connected(metering_url) as metering:
            copy_reporting(reporting, events(count, _resources(count)))
            rebuild(reporting)
            closed, memory = _in_own_process(house)
            limit = copy_limit(server_url, metering)
            first, timelines = _timelines(metering)
            corrected = _correction(house, reporting, metering)
            changes = list(_changes(count))
            second = _second_month(reporting, metering, changes)
            third, *_, twelfth = [_later_month(house, reporting, changes, number) for number in range(3, 13)]
    total = closed["total"]
    return [
        timelines,
        result("close_vs_copy_5m", total, limit),
        *(result(f"close_vs_copy_5m.{step}", part, limit) for step, part in closed.items() if step != "total"),
        _compared("close_vs_copy_5m.python_peak_mb", memory, "what it may take", MEMORY_MB, "MB"),
        _compared("second_month_vs_first", second, "the timelines of the first months", first),
        *(
            _compared(
                f"twelfth_month_vs_third{'' if step == 'total' else f'.{step}'}", part, "in the third", third[step]
            )
            for step, part in twelfth.items()
        ),
        _compared("late_correction_vs_close", corrected["total"], "the close of the month", total),
        *(
            _compared(f"late_correction_vs_close.{step}", part, "the same step of the close", closed[step])
            for step, part in corrected.items()
            if step != "total" and step in closed
        ),
    ]


def _resources(count: int) -> int:
    return max(1, count // EVENTS_PER_RESOURCE)


def _in_own_process(house: House, period: str = PERIOD, now: datetime = NOW) -> tuple[dict[str, float], float]:
    """Seconds of the job by step and in all, and megabytes of its processes at their peaks."""
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(max_workers=1, mp_context=spawn) as process:
        return process.submit(_close, house.reporting_url, house.metering_url, period, now).result()


def _close(*what: Any) -> tuple[dict[str, float], float]:
    try:
        steps = close(*what)
    except TallyError as error:  # some of them do not pass from one process to another
        raise RuntimeError(str(error)) from None
    return steps, _peak_mb()


def _peak_mb() -> float:
    """The peaks of this process and of all that it has started, added up: no less than they ever took at once."""
    children = [pid for task in Path("/proc/self/task").iterdir() for pid in (task / "children").read_text().split()]
    statuses = [Path("/proc", pid, "status").read_text(encoding="utf-8") for pid in ("self", *children)]
    return sum(int(status.partition("VmHWM:")[2].split()[0]) for status in statuses) / 1024


def _timelines(metering: Connection) -> tuple[float, dict[str, object]]:
    """Seconds of all that is derived of the histories from nothing, and the timelines alone beside DuckDB."""
    [closed] = runs.runs(metering, MARCH)
    seconds = derive_timelines(metering, closed, "--full-refresh")
    start = time.perf_counter()
    dbt(metering, "run", closed, "int_lifetimes", "--full-refresh")
    first = seconds + time.perf_counter() - start
    limit = duckdb_seconds(metering)
    return first, _compared("timeline_vs_duckdb_5m", seconds, "the same query by DuckDB from Parquet", limit)


def _correction(house: House, reporting: Connection, metering: Connection) -> dict[str, float]:
    """Seconds of the job that corrects the finalized month by one late event, by step."""
    with runs.metering_lock(metering):
        finalize(reporting, metering, MARCH, timedelta(days=3), lambda: NOW)
    _send_late_event(reporting)
    corrected, _ = _in_own_process(house)
    [correction] = [each for each in runs.runs(metering, MARCH) if each.kind == "correction"]
    if (correction.status, correction.scope) != ("finalized", "changed"):
        raise AssertionError(f"the correction is {correction.status}, of scope {correction.scope}")
    return corrected


def _send_late_event(reporting: Connection) -> None:
    """Tell that an instance that still lives was deleted within the month."""
    row = reporting.execute(
        """select cloud, platform, resource_type, resource_id, project_id from reporting.current_resources
           where resource_type = 'instance' and deleted_at is null and last_event_at < '2026-03-31' limit 1"""
    ).fetchone()
    assert row is not None
    cloud, platform, resource_type, resource_id, project_id = row
    late = {
        "event_id": "late", "timestamp": "2026-03-31T12:00:00Z", "event_type": "compute.instance.delete.end",
        "platform": platform, "cloud": cloud, "resource_type": resource_type, "resource_id": resource_id,
        "project_id": project_id, "payload": {},
    }  # fmt: skip
    [outcome] = send(reporting, late)
    assert outcome.status == "accepted", outcome


def _second_month(reporting: Connection, metering: Connection, changes: Iterable[Event]) -> float:
    """Seconds of what is derived of the histories in the next month, in which a 20th of the resources changed."""
    _arrive(reporting, _in_month(changes, 2))
    with runs.metering_lock(metering):
        begun = runs.start(reporting, metering, APRIL, lambda: IN_MAY)
        dbt(metering, "run", begun, "stg_runs stg_lifecycles stg_resource_types stg_events")
        start = time.perf_counter()
        derive_timelines(metering, begun)
        dbt(metering, "run", begun, "int_lifetimes")
        seconds = time.perf_counter() - start
        dbt(metering, "run", begun, "int_proved_lives")
        runs.fail(metering, begun.id, "of no further interest")
    return seconds


def _later_month(house: House, reporting: Connection, changes: Iterable[Event], number: int) -> dict[str, float]:
    """Seconds of the close of a month, by step, in which the same resources changed in the same way again."""
    period = APRIL
    for _ in range(number - 2):
        period = period.next
    _arrive(reporting, _in_month(changes, number))
    steps, _ = _in_own_process(house, str(period), period.end + timedelta(days=20))
    return steps


def _arrive(reporting: Connection, some: Iterator[Event]) -> None:
    """Put events into the reporting database, and into its projection."""
    registry = current_registry(reporting)
    while chunk := list(islice(some, 10_000)):
        with reporting.transaction():
            copy_reporting(reporting, iter(chunk))
            fold(reporting, registry, ((event, transition_of(registry, event)) for event in chunk))


def _changes(count: int) -> Iterator[Event]:
    """What a 20th of the resources did in March."""
    for event in events(count, _resources(count)):
        if event.timestamp >= MARCH.start and zlib.crc32(event.resource_id.encode()) % 20 == 0:
            yield event


def _in_month(changes: Iterable[Event], number: int) -> Iterator[Event]:
    """The same some months later; March is the first."""
    later = timedelta(days=30) * (number - 1)
    for event in changes:
        yield replace(event, event_id=f"{event.event_id}-{number}", timestamp=event.timestamp + later)


def _compared(name: str, value: float, reference: str, limit: float, unit: str = "s") -> dict[str, object]:
    return {
        "name": name,
        "value": round(value, 2),
        "unit": unit,
        "reference": reference,
        "reference_value": round(limit, 2),
        "ratio": round(value / limit, 3),
    }
