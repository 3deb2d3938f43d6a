"""Several processes at one reporting database, and processes that die: nothing lost, nothing doubled (rule 22)."""

import random
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

from tally.services.projection import rebuild
from tally.store.database import Connection, connected
from tally.store.reporting.projection import lock
from tests.bench.events import raw_events
from tests.integration.sending import (
    CLOUD,
    CREATE,
    DELETE,
    RESIZE,
    count,
    door,
    event,
    projection,
    raw,
    statuses,
    volume,
)

PATIENCE_SECONDS = 120

Process = subprocess.Popen[str]


def history(resources: int, events_each: int) -> list[bytes]:
    """Events of several volumes, resource by resource."""
    return [
        raw(
            volume(
                f"{number}-{step}",
                f"{step + 1:02d}T00:00:00",
                RESIZE if step else CREATE,
                step + 1,
                resource_id=f"v-{number}",
            )
        )
        for number in range(resources)
        for step in range(events_each)
    ]


def start(repository: Path, url: str, file: Path, raws: Sequence[bytes], events_per_batch: int) -> Process:
    """Start a process that waits for the word to go."""
    file.write_bytes(b"\n".join(raws))
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.ingest_process", url, str(file), str(events_per_batch)],
        cwd=repository,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go(process: Process) -> None:
    """Give the word."""
    assert process.stdin is not None
    process.stdin.write("go\n")
    process.stdin.flush()


def results(process: Process) -> list[int]:
    """What a process has accepted, deduplicated and rejected."""
    answer, _ = process.communicate(timeout=PATIENCE_SECONDS)
    assert process.returncode == 0
    return [int(number) for number in answer.split()]


def run_together(
    repository: Path, url: str, folder: Path, loads: Sequence[Sequence[bytes]], per_batch: int
) -> list[list[int]]:
    """Run one process per load at the same time."""
    processes = [start(repository, url, folder / str(number), load, per_batch) for number, load in enumerate(loads)]
    for process in processes:
        go(process)
    return [results(process) for process in processes]


def assert_whole(reporting: Connection, events: int) -> None:
    """Every event is stored once, each is in a batch of the outbox, and the projection is the fold of the history."""
    assert count(reporting, "events") == count(reporting, "event_ids") == events
    announced = reporting.execute(
        "select count(*) from reporting.event_ids inner join reporting.pending_batches using (batch_id)"
    ).fetchone()
    assert announced == (events,)
    found = projection(reporting)
    rebuild(reporting)
    assert projection(reporting) == found


def test_rule_22_two_processes_with_the_same_events(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 22: in opposite and in shuffled order, in batches that overlap: each event is accepted by exactly one."""
    raws = history(resources=40, events_each=25)
    shuffled = raws.copy()
    random.Random(7).shuffle(shuffled)
    counts = run_together(repository, reporting_url, tmp_path, [raws, raws[::-1], shuffled], per_batch=83)
    assert [sum(column) for column in zip(*counts, strict=True)] == [1000, 2000, 0]
    assert_whole(reporting, 1000)


def test_rule_22_two_processes_with_interleaved_events(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 22: every second event of the same resources each: all are accepted, and no row misses one."""
    raws = list(islice(raw_events(2000, 50), 2000))
    counts = run_together(repository, reporting_url, tmp_path, [raws[::2], raws[1::2]], per_batch=100)
    assert counts == [[1000, 0, 0], [1000, 0, 0]]
    assert_whole(reporting, 2000)


def test_rule_1_two_processes_that_disagree(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 1: the same ids with other content: of each id one is stored, and the other is a dead letter."""
    one = [raw(volume(str(number), "01T00:00:00", CREATE, 1, resource_id=f"v-{number}")) for number in range(500)]
    other = [raw(volume(str(number), "01T00:00:00", CREATE, 2, resource_id=f"v-{number}")) for number in range(500)]
    counts = run_together(repository, reporting_url, tmp_path, [one, other[::-1]], per_batch=50)
    assert [sum(column) for column in zip(*counts, strict=True)] == [500, 0, 500]
    assert count(reporting, "rejected_events") == 500
    assert_whole(reporting, 500)


def test_rule_22_a_rebuild_beside_ingestion(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 22: the projection is replayed again and again while events arrive out of order."""
    raws = history(resources=40, events_each=25)
    random.Random(8).shuffle(raws)
    process = start(repository, reporting_url, tmp_path / "raws", raws, 50)
    go(process)
    while process.poll() is None:
        rebuild(reporting)
    assert results(process) == [1000, 0, 0]
    assert_whole(reporting, 1000)


def test_rule_22_a_process_that_is_killed_in_mid_batch(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 22: kill -9 after the events are written, before the projection is: a retry finds nothing and takes all."""
    raws = history(resources=20, events_each=5)
    process = start(repository, reporting_url, tmp_path / "raws", raws, 60)
    with locked(reporting_url, (CLOUD, "volume", "v-19")):  # in the second batch
        go(process)
        wait_until_somebody_waits(reporting)
        process.kill()
        process.wait()
        assert count(reporting, "events") == 60
    outcomes = door(reporting).ingest(raws)
    assert statuses(outcomes) == ["deduplicated"] * 60 + ["accepted"] * 40
    assert_whole(reporting, 100)


def test_rule_22_a_late_event_waits_for_the_batch_before_it(
    reporting: Connection, reporting_url: str, repository: Path, tmp_path: Path
) -> None:
    """Rule 22: two batches hold events of one resource: the second to get it folds what the first has stored."""
    door(reporting).ingest([raw(volume("1", "01T00:00:00", CREATE, 1))])
    late = start(repository, reporting_url, tmp_path / "late", [raw(volume("2", "02T00:00:00", RESIZE, 2))], 10)
    with connected(reporting_url) as first, first.transaction():
        door(first).ingest([raw(event("3", "03T00:00:00", DELETE))])
        go(late)
        wait_until_somebody_waits(reporting)
    assert results(late) == [1, 0, 0]
    assert_whole(reporting, 3)


@contextmanager
def locked(url: str, resource: tuple[str, str, str]) -> Iterator[None]:
    """Hold the lock of a resource in a session of its own."""
    with connected(url) as holder, holder.transaction():
        lock(holder, [resource])
        yield


def wait_until_somebody_waits(reporting: Connection) -> None:
    """Return once another session waits for an advisory lock."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    waiting = (
        "select count(*) from pg_locks where locktype = 'advisory' and not granted"
        " and database = (select oid from pg_database where datname = current_database())"
    )
    while reporting.execute(waiting).fetchone() == (0,):
        assert time.monotonic() < deadline
        time.sleep(0.01)
