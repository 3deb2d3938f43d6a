"""Two materializations of a month, an ingest load and rebuilds of the projection, all at once (rule 22, S53).

Nobody deadlocks, nothing doubles, and the sums are those of the same events in peace.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from decimal import Decimal
from threading import Event

import pytest

from tally.services.projection import rebuild
from tally.store.database import connected
from tests.integration.closing import SMALL, House, instance
from tests.integration.correcting import correct, finalize_month
from tests.integration.job_process import Job, assert_whole, sums
from tests.integration.sending import send

TIMES = 3


@contextmanager
def disturbed(house: House, prefix: str) -> Iterator[list[str]]:
    """While the block runs, instances of 24 hours and 2.40 each arrive one by one, and the projection is rebuilt.

    Yields their names, which are all known only after the block.
    """
    done, names = Event(), []

    def ingest() -> None:
        with connected(house.reporting_url) as reporting:
            while not done.is_set():
                name = f"{prefix}-{len(names)}"
                outcomes = send(
                    reporting,
                    instance(f"{name}-d", "03-11T00:00:00", "delete.end", name, project_id="p-3"),
                    instance(f"{name}-c", "03-10T00:00:00", "create.end", name, size=SMALL, project_id="p-3"),
                )
                assert {outcome.status for outcome in outcomes} == {"accepted"}
                names.append(name)
                done.wait(0.1)

    def rebuild_again_and_again() -> None:
        with connected(house.reporting_url) as reporting:
            while not done.is_set():
                rebuild(reporting)

    with ThreadPoolExecutor(2) as pool:
        disturbing = [pool.submit(ingest), pool.submit(rebuild_again_and_again)]
        try:
            yield names
        finally:
            done.set()
        for future in disturbing:
            future.result()


def run_twice_at_once(house: House) -> None:
    """Two processes run the job at the same time; both succeed, one after the other."""
    jobs = [Job(house), Job(house)]
    with ThreadPoolExecutor(2) as pool:  # what both have to say is read, so that neither waits for a reader
        for code, said in pool.map(Job.end, jobs):
            assert code == 0, said


@pytest.mark.drill
def test_two_closes_and_two_corrections_beside_ingestion_and_rebuilds(house: House) -> None:
    """Three times each. An instance costs 24 h x 0.10 = 2.40, and is in the month once, whenever it has arrived."""
    total, _, minutes, records = sums(house)
    with disturbed(house, "early") as early:
        for _ in range(TIMES):
            run_twice_at_once(house)
    house.close()
    count = len(early)
    assert sums(house)[0] == total + Decimal("2.40") * count
    finalize_month(house)
    with disturbed(house, "late") as late:
        for _ in range(TIMES):
            run_twice_at_once(house)
    assert correct(house).success
    count += len(late)
    assert len(late) > 0
    expected = total + Decimal("2.40") * count
    assert sums(house) == (expected, expected, minutes + 24 * 60 * count, records + count)
    assert_whole(house)
    assert house.query("select distinct kind, status from ledger.runs where status <> 'superseded' order by 1") == [
        ("correction", "finalized"), ("regular", "finalized"),
    ]
