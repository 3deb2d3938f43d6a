"""The whole close beside a COPY of the events it reads and a COPY of the ledger rows it writes.

The close is the job close_month: load, timelines, usage, checks, rating, ledger, bills, marts. COPY does nothing but
store the same rows into the same tables of another metering database, with their indexes and triggers, in the same
run: it stands for the limit.
"""

import tempfile
import time
from datetime import datetime, timedelta

from resources.clock import Clock
from resources.databases import Databases
from tally.services.projection import rebuild
from tally.store.database import Connection, connected
from tally.store.metering.runs import RECORDS
from tally_dagster.definitions import build_definitions
from tests.bench.databases import database
from tests.bench.events import END, copy_reporting, events

EVENTS = 1_000_000
EVENTS_PER_RESOURCE = 25
PERIOD = "2026-03"
NOW = END + timedelta(days=30)
_REFERRED_TO = ("raw.loads", "ledger.pricing_versions", "ledger.runs")
_NEVER_EMPTY = {"raw.events", "ledger.usage_records", "ledger.rated_records", "ledger.bills"}
_COPIED = ("raw.events", *(f"ledger.{table}" for table in reversed(RECORDS)))
# What goes once a table is copied, since no row to come refers to it: everything at once outgrows the memory of a
# small machine.
_DONE_WITH = {
    "raw.events": "raw.events",
    "ledger.rated_records": "ledger.rated_records, ledger.usage_records",
}


def run(server_url: str, count: int = EVENTS) -> list[dict[str, object]]:
    """Measure the seconds of both for ``count`` events over a 25th of as many resources, and each step of the close."""
    with database(server_url, "reporting") as reporting_url, database(server_url, "metering") as metering_url:
        with connected(reporting_url) as reporting:
            copy_reporting(reporting, events(count, max(1, count // EVENTS_PER_RESOURCE)))
            rebuild(reporting)
        steps = close(reporting_url, metering_url)
        with connected(metering_url) as metering:
            limit = copy_limit(server_url, metering)
    seconds = steps.pop("total")
    return [
        result("close_vs_copy", seconds, limit),
        *(result(f"close_vs_copy.{step}", part, limit) for step, part in steps.items()),
    ]


def close(reporting_url: str, metering_url: str, period: str = PERIOD, now: datetime = NOW) -> dict[str, float]:
    """Seconds of the job for a month, in all and by step."""
    databases = Databases(reporting_url=reporting_url, metering_url=metering_url)
    definitions = build_definitions({"databases": databases, "clock": Clock(instant=now.isoformat())})
    job = definitions.resolve_job_def("close_month")
    start = time.perf_counter()
    # By its tag, since Dagster has no partition yet of a month that is to come.
    result = job.execute_in_process(tags={"dagster/partition": period})
    total = time.perf_counter() - start
    steps = {
        str(event.step_key): float(event.step_success_data.duration_ms) / 1000
        for event in result.all_events
        if event.is_step_success
    }
    return {"total": total} | steps


def copy_limit(server_url: str, metering: Connection) -> float:
    """Seconds of a binary COPY of the events that a close has read, and of the ledger rows that it has written."""
    with database(server_url, "metering", shipped=False) as copy_url, connected(copy_url) as copied:
        for table in _REFERRED_TO:
            _copy_seconds(metering, copied, table)
        seconds = 0.0
        for table in _COPIED:
            seconds += _copy_seconds(metering, copied, table)
            if table in _NEVER_EMPTY and copied.execute(f"select from {table} limit 1".encode()).fetchone() is None:
                raise AssertionError(f"the close wrote nothing into {table}")
            if table in _DONE_WITH:
                copied.execute(f"truncate {_DONE_WITH[table]}".encode())
    return seconds


def _copy_seconds(metering: Connection, copied: Connection, table: str) -> float:
    """Seconds of a binary COPY of a table's rows into the same, empty table of another database."""
    with tempfile.TemporaryFile() as file:
        with metering.cursor().copy(f"copy {table} to stdout (format binary)".encode()) as copy:
            for block in copy:
                file.write(block)
        file.seek(0)
        start = time.perf_counter()
        with copied.cursor().copy(f"copy {table} from stdin (format binary)".encode()) as copy:
            while block := file.read(1 << 16):
                copy.write(block)
        return time.perf_counter() - start


def result(name: str, seconds: float, limit: float) -> dict[str, object]:
    """A figure of the close."""
    return {
        "name": name,
        "value": round(seconds, 2),
        "unit": "s",
        "reference": "COPY of the events and the ledger rows",
        "reference_value": round(limit, 2),
        "ratio": round(seconds / limit, 2),
    }
