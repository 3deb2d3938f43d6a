"""The event sink over HTTP beside a raw binary COPY of the same rows into the same indexed table.

The server is `tally api` with its default number of processes, over databases of its own. The senders are a process of
their own with a few connections, which sends bodies of 1,000 events that were made beforehand: the rates hold for
client and server on one machine. COPY writes the same rows in the same run, once before and once after the load.

Then the first bodies come again, which says what a duplicate costs; and single events are sent while batches come at
half of the rate, which says what a collector waits for. The memory of the processes is read after a warm-up and at the
end. TALLY_BENCH_SECONDS is how long the load lasts: 60 by default; ten minutes are 600.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import islice
from pathlib import Path
from statistics import mean, quantiles
from typing import Any

from psycopg.conninfo import conninfo_to_dict

from tally.domain.event import split_batch
from tally.services.ingest import Ingest
from tally.store.database import connected
from tests.bench.databases import database
from tests.bench.events import END, copy_rows, event_row, events, raw_events
from tests.bench.http_sender import EVENTS_PER_BATCH
from tests.conftest import REPOSITORY, on_server
from tests.integration.api_process import Api, api_process

SECONDS = float(os.environ.get("TALLY_BENCH_SECONDS") or "60")
EVENTS = 100_000
EVENTS_PER_RESOURCE = 25
SENDERS = 4
SINGLES_PER_SECOND = 20
AIM_MILLISECONDS = 50

Result = dict[str, object]


class Sender:
    """A process that sends what it is told (http_sender.py)."""

    def __init__(self, url: str, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.bench.http_sender", url, str(folder)],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def tell(self, **command: Any) -> None:
        """Give a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()

    def done(self) -> dict[str, Any]:
        """Wait for what the last command has done."""
        assert self._process.stdout is not None
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def load(self, cycle: int | None, seconds: float | None) -> dict[str, Any]:
        """Send batches as fast as they are taken; for None seconds each body once."""
        self.tell(do="load", threads=SENDERS, cycle=cycle, seconds=seconds, per_second=None)
        return self.done()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def run(server_url: str, count: int = EVENTS, seconds: float = SECONDS) -> list[Result]:
    """Measure all; ``count`` is how many different events there are, after which they come under other names."""
    resources = count // EVENTS_PER_RESOURCE
    copied = [_copy(server_url, count, resources)]
    alone = _alone(server_url, count, resources)
    with _served(server_url) as api, _bodies(count, resources) as folder, _sender(api, folder) as sender:
        warm = sender.load(0, None)
        memory_before = _memory(api)
        new = sender.load(warm["next_cycle"], seconds)
        memory_after = _memory(api)
        again = sender.load(None, seconds / 4)
        milliseconds = _single_events(api, folder, sender, new["next_cycle"], _rate(new) / 2, seconds / 2)
    copied.append(_copy(server_url, count, resources))
    rate, aim = _rate(new), ("ms", "aim for the 99th percentile", AIM_MILLISECONDS)
    return [
        _result("http_ingest_vs_copy", rate, "rows/s", "COPY of the same rows into the same table", mean(copied)),
        _result("http_ingest_events_per_s", rate, "events/s", "the service in one process, without HTTP", alone),
        _result("http_duplicates_vs_new", _rate(again), "events/s", "new events over HTTP", rate),
        _result("http_single_event_p50", milliseconds[49], *aim),
        _result("http_single_event_p99", milliseconds[98], *aim),
        _result("http_ingest_memory", memory_after, "MiB", "after a warm-up", memory_before),
    ]


def _copy(server_url: str, count: int, resources: int) -> float:
    """Rows per second of COPY; making the rows is not counted."""
    rows = list(map(event_row, events(count, resources)))
    with database(server_url, "reporting") as url, connected(url) as reporting:
        begin = time.perf_counter()
        copy_rows(reporting, rows, "reporting.events")
        return count / (time.perf_counter() - begin)


def _alone(server_url: str, count: int, resources: int) -> float:
    """Events per second of the service over one connection, from the same bodies."""
    bodies = _batches(count, resources)
    with database(server_url, "reporting") as url, connected(url) as reporting:
        service = Ingest(reporting, clock=lambda: END, clock_skew=timedelta(0), actor="bench")
        seconds = 0.0
        for body in bodies:
            begin = time.perf_counter()
            service.ingest(split_batch(body, limit=EVENTS_PER_BATCH).elements)
            seconds += time.perf_counter() - begin
    return count / seconds


@contextmanager
def _served(server_url: str) -> Iterator[Api]:
    home = Path(os.environ["TALLY_HOME"])
    with database(server_url, "reporting") as reporting, database(server_url, "metering") as metering:
        names = {"reporting_url": reporting, "metering_url": metering, "dagster_url": server_url}
        urls = {name: on_server(server_url, str(conninfo_to_dict(url)["dbname"])) for name, url in names.items()}
        with api_process(home, urls) as api:
            yield api


@contextmanager
def _bodies(count: int, resources: int) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="tally-bench-") as folder:
        for number, body in enumerate(_batches(count, resources)):
            Path(folder, f"{number:06d}").write_bytes(body)
        yield Path(folder)


def _batches(count: int, resources: int) -> Iterator[bytes]:
    raws = raw_events(count, resources)
    for _ in range(count // EVENTS_PER_BATCH):
        yield b"[" + b",".join(islice(raws, EVENTS_PER_BATCH)) + b"]"


@contextmanager
def _sender(api: Api, folder: Path) -> Iterator[Sender]:
    sender = Sender(api.client.url, folder)
    try:
        yield sender
    finally:
        sender.end()


def _single_events(
    api: Api, folder: Path, batches: Sender, cycle: int, per_second: float, seconds: float
) -> list[float]:
    """Percentiles, in milliseconds, of what single events take while batches come at a steady pace."""
    with _sender(api, folder) as singles:
        batches.tell(do="load", threads=SENDERS, cycle=cycle, seconds=seconds + 2, per_second=per_second)
        singles.tell(do="singles", seconds=seconds, per_second=SINGLES_PER_SECOND)
        taken = singles.done()["milliseconds"]
        batches.done()
    return quantiles(taken, n=100)


def _memory(api: Api) -> float:
    """MiB of the processes that serve, added up."""
    kibibytes = 0
    for worker in api.workers():
        status = Path(f"/proc/{worker}/status").read_text(encoding="utf-8")
        kibibytes += int(status.partition("VmRSS:")[2].split()[0])
    return kibibytes / 1024


def _rate(done: dict[str, Any]) -> float:
    return float(done["events"] / done["seconds"])


def _result(name: str, value: float, unit: str, reference: str, reference_value: float) -> Result:
    return {
        "name": name,
        "value": round(value, 1),
        "unit": unit,
        "reference": reference,
        "reference_value": round(reference_value, 1),
        "ratio": round(value / reference_value, 4),
    }
