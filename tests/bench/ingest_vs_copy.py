"""The ingest service beside a raw binary COPY of the same rows into the same indexed table.

Both run in one process over one connection, in databases that are made for the run and dropped afterwards. COPY does
nothing but store: it stands for the limit. The service reads, judges, hashes, deduplicates, folds and audits as well.
"""

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from typing import TypeVar

from tally.services.ingest import EVENTS_PER_TRANSACTION, Ingest
from tally.store.database import Connection, connected
from tests.bench.databases import database
from tests.bench.events import END, copy_rows, event_row, events, raw_events

EVENTS = 1_000_000
EVENTS_PER_RESOURCE = 25

Item = TypeVar("Item")


def run(server_url: str, count: int = EVENTS) -> list[dict[str, object]]:
    """Measure rows per second of both, for ``count`` events over a 25th of as many resources.

    ``server_url`` names a superuser's database on the server to use.
    """
    resources = max(1, count // EVENTS_PER_RESOURCE)
    with database(server_url, "reporting") as url, connected(url) as reporting:
        seconds = _copy_seconds(reporting, count, resources)
        limit = count / seconds
    with database(server_url, "reporting") as url, connected(url) as reporting:
        seconds = _ingest_seconds(reporting, count, resources)
        rate = count / seconds
    return [
        {
            "name": "ingest_vs_copy",
            "value": round(rate),
            "unit": "rows/s",
            "reference": "binary COPY of the same rows into the same indexed table",
            "reference_value": round(limit),
            "ratio": round(rate / limit, 4),
        }
    ]


def _copy_seconds(reporting: Connection, count: int, resources: int) -> float:
    rows = map(event_row, events(count, resources))
    return _seconds_in_batches(
        lambda size: list(islice(rows, size)), lambda batch: copy_rows(reporting, batch, "reporting.events"), 100_000
    )


def _ingest_seconds(reporting: Connection, count: int, resources: int) -> float:
    service = Ingest(reporting, clock=lambda: END, clock_skew=timedelta(0), actor="bench")
    raws = raw_events(count, resources)

    def ingest(batch: list[bytes]) -> None:
        if any(outcome.status != "accepted" for outcome in service.ingest(batch)):
            raise AssertionError("the benchmark sends what is new and valid, and it was not accepted")

    return _seconds_in_batches(lambda size: list(islice(raws, size)), ingest, EVENTS_PER_TRANSACTION)


def _seconds_in_batches(prepare: Callable[[int], list[Item]], work: Callable[[list[Item]], object], size: int) -> float:
    """Return the seconds of the work alone; making the events is not counted."""
    seconds = 0.0
    while batch := prepare(size):
        start = time.perf_counter()
        work(batch)
        seconds += time.perf_counter() - start
    return seconds
