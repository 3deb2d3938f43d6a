"""Kill -9 of the run in the middle of a close or a correction: the next run finishes (rule 22).

Nothing is half written: until a run is complete the former one counts, and in the end the sums are what they would have
been without the kill.
"""

import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any

import pytest

from tests.conftest import REPOSITORY
from tests.integration.closing import LARGE, House, instance
from tests.integration.correcting import correct, finalize_month

CREATE = instance("k-1", "02-01T00:00:00", "create.end", "killed", size=LARGE, project_id="p-killed")
DELETE = instance("k-2", "03-20T12:00:00", "delete.end", "killed", project_id="p-killed")
SUMS = """
    select (select sum(total) from ledger.bills where run_id = any(live)),
        (select sum(amount) from ledger.rated_records where run_id = any(live)),
        (select sum((usage ->> 'minutes')::numeric) from ledger.usage_records where run_id = any(live)),
        (select count(*) from ledger.usage_records where run_id = any(live))
    from (select array_agg(id) as live from ledger.runs where status in ('completed', 'finalized')) as runs"""
HALF_WRITTEN = """
    select run.status, part.name, count(*) from ledger.runs as run
    inner join (
        select 'usage' as name, run_id from ledger.usage_records
        union all select 'rated', run_id from ledger.rated_records
        union all select 'bill', run_id from ledger.bills
        union all select 'attribution', run_id from ledger.attributions
    ) as part on part.run_id = run.id
    where run.status in ('failed', 'superseded') group by 1, 2"""


class Job:
    """The job in a process of its own."""

    def __init__(self, house: House) -> None:
        command = [sys.executable, "-m", "tests.integration.close_process", house.reporting_url, house.metering_url]
        self.process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)

    def wait_for(self, step: str) -> None:
        """Return as a step begins."""
        begun = re.compile(rf" - {step} - STEP_START")
        assert self.process.stderr is not None
        while not begun.search(line := self.process.stderr.readline()):
            assert line, f"it has ended before {step}"

    def end(self) -> int:
        """Wait for its end, and return the exit code."""
        assert self.process.stderr is not None
        if not self.process.stderr.closed:
            self.process.communicate()
        return self.process.returncode


@contextmanager
def job(house: House) -> Iterator[Job]:
    """Start the job, and kill what is left of it after the block."""
    started = Job(house)
    try:
        yield started
    finally:
        started.process.kill()
        started.end()


def sums(house: House) -> tuple[Any, ...]:
    """What counts: bills, costs, minutes and the number of records."""
    return house.query(SUMS)[0]


def kill_at_random(house: House, steps: tuple[str, ...], seed: int, allowed: list[tuple[Any, ...]]) -> None:
    """Kill the job somewhere in each of some steps; what counts then is what counted before, or what it has made."""
    chance = random.Random(seed)
    for step in steps:
        with job(house) as victim:
            victim.wait_for(step)
            time.sleep(chance.random() / 4)
            victim.process.send_signal(signal.SIGKILL)
            victim.end()
        assert sums(house) in allowed, step


def assert_whole(house: House) -> None:
    """No run is in the making, and what has failed or was replaced has no records; marts hold what counts."""
    assert house.query("select count(*) from ledger.runs where status = 'running'") == [(0,)]
    assert house.query(HALF_WRITTEN) == []
    assert house.query("select sum(amount) from marts.project_costs_monthly") == [(sums(house)[1],)]


@pytest.mark.slow
def test_runs_that_are_killed_leave_nothing_half_written(house: House) -> None:
    """A close is killed in four of its steps, then the correction of a late delete: -276 h x 0.20 = -55.20."""
    before = sums(house)
    house.ingest(CREATE)
    made = (before[0] + Decimal("148.80"), before[1] + Decimal("148.80"), before[2] + 44_640, before[3] + 1)
    kill_at_random(house, ("derive_usage", "rated_records", "bills", "completed_run"), 1, [before, made])
    house.close()
    assert sums(house) == made
    assert_whole(house)
    finalize_month(house)
    house.ingest(DELETE)
    corrected = (made[0] - Decimal("55.20"), made[1] - Decimal("55.20"), made[2] - 276 * 60, made[3] + 2)
    kill_at_random(house, ("load", "usage_records", "bills", "build_marts"), 2, [made, corrected])
    assert correct(house).success
    assert sums(house) == corrected
    assert_whole(house)
