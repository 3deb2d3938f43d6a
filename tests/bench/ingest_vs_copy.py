"""The ingest service beside a raw binary COPY of the same rows into the same indexed table, without HTTP.

Databases are made for the run and dropped afterwards. COPY does nothing but store: it stands for the limit. The service
splits batches, reads, judges, hashes, deduplicates, folds and audits as well. In two processes, each takes the events
of one cloud, as two collectors send them to two workers of the API.
"""

import gc
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Literal, TypeVar

from tally.domain.event import encode_event, split_batch
from tally.services.ingest import EVENTS_PER_TRANSACTION, Ingest
from tally.store.database import Connection, connected
from tests.bench.databases import database
from tests.bench.events import CLOUDS, END, copy_rows, event_row, events

EVENTS = 1_000_000
EVENTS_PER_RESOURCE = 25
EVENTS_OF_TWO_PROCESSES = 300_000  # they are made before the clock starts, and kept in memory

Item = TypeVar("Item")
Body = tuple[bytes, int]  # the JSON of a batch, and how many events it has


def run(server_url: str, count: int = EVENTS) -> list[dict[str, object]]:
    """Measure rows per second of each, for ``count`` events over a 25th of as many resources.

    ``server_url`` names a superuser's database on the server to use.
    """
    with database(server_url, "reporting") as url, connected(url) as reporting:
        limit = count / _copy_seconds(reporting, count)
    with database(server_url, "reporting") as url, connected(url) as reporting:
        new = count / _ingest_seconds(reporting, count, "accepted")
        again = count / _ingest_seconds(reporting, count, "deduplicated")
    with database(server_url, "reporting") as url:
        together = _rate_of_two_processes(url, min(count, EVENTS_OF_TWO_PROCESSES))
    copy = "binary COPY of the same rows into the same indexed table"
    return [
        _result("ingest_vs_copy", new, copy, limit),
        _result("ingest_two_processes_vs_copy", together, copy, limit),
        _result("duplicates_vs_new", again, "the same events when they were new", new),
    ]


def _result(name: str, value: float, reference: str, reference_value: float) -> dict[str, object]:
    return {
        "name": name,
        "value": round(value),
        "unit": "rows/s",
        "reference": reference,
        "reference_value": round(reference_value),
        "ratio": round(value / reference_value, 4),
    }


def _copy_seconds(reporting: Connection, count: int) -> float:
    rows = map(event_row, events(count, _resources(count)))
    return _seconds_in_batches(
        lambda size: list(islice(rows, size)), lambda batch: copy_rows(reporting, batch, "reporting.events"), 100_000
    )


def _ingest_seconds(reporting: Connection, count: int, expected: Literal["accepted", "deduplicated"]) -> float:
    remaining = bodies(count)
    return _seconds_in_batches(
        lambda size: list(islice(remaining, size)), lambda some: _ingest(reporting, some, expected), 1
    )


def _ingest(reporting: Connection, some: list[Body], expected: str) -> None:
    """Take batches as a worker of the API does: each through a door of its own."""
    for body, size in some:
        service = Ingest(reporting, clock=lambda: END, clock_skew=timedelta(0), actor="bench")
        outcomes = service.ingest(split_batch(body, limit=EVENTS_PER_TRANSACTION).elements)
        if [outcome.status for outcome in outcomes] != [expected] * size:
            raise AssertionError(f"the benchmark sends {size} events, all to be {expected}, and they were not")


def bodies(count: int, cloud: str | None = None) -> Iterator[Body]:
    """Yield the events, those of one cloud or all, as JSON arrays that fit a transaction."""
    some = (encode_event(each) for each in events(count, _resources(count)) if cloud in (None, each.cloud))
    while batch := list(islice(some, EVENTS_PER_TRANSACTION)):
        yield b"[" + b",".join(batch) + b"]", len(batch)


def _resources(count: int) -> int:
    return max(1, count // EVENTS_PER_RESOURCE)


def _rate_of_two_processes(url: str, count: int) -> float:
    """Return the events per second of two processes, from the start of both to the end of the later one."""
    context = get_context("spawn")
    pipes, processes = [], []
    for cloud in CLOUDS:
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(url, count, cloud, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()
    start = time.perf_counter()
    for pipe in pipes:
        pipe.send("start")
    for pipe in pipes:
        pipe.recv()
    seconds = time.perf_counter() - start
    for process in processes:
        process.join()
    return count / seconds


def _work(url: str, count: int, cloud: str, pipe: Pipe) -> None:
    """Make events, wait for the start, and ingest them."""
    some = list(bodies(count, cloud))
    gc.freeze()
    with connected(url) as reporting:
        pipe.send("ready")
        pipe.recv()
        _ingest(reporting, some, "accepted")
        pipe.send("done")


def _seconds_in_batches(prepare: Callable[[int], list[Item]], work: Callable[[list[Item]], object], size: int) -> float:
    """Return the seconds of the work alone; making the events is not counted."""
    seconds = 0.0
    while batch := prepare(size):
        start = time.perf_counter()
        work(batch)
        seconds += time.perf_counter() - start
    return seconds
