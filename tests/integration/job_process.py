"""The job in a process of its own, to be killed or run beside others, and what counts in the ledger meanwhile."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.conftest import REPOSITORY
from tests.integration.closing import House

_SUMS = """
    select (select sum(total) from ledger.bills where run_id = any(live)),
        (select sum(amount) from ledger.rated_records where run_id = any(live)),
        (select sum((usage ->> 'minutes')::numeric) from ledger.usage_records where run_id = any(live)),
        (select count(*) from ledger.usage_records where run_id = any(live))
    from (select array_agg(id) as live from ledger.runs where status in ('completed', 'finalized')) as runs"""
_HALF_WRITTEN = """
    select run.status, part.name, count(*) from ledger.runs as run
    inner join (
        select 'usage' as name, run_id from ledger.usage_records
        union all select 'rated', run_id from ledger.rated_records
        union all select 'bill', run_id from ledger.bills
        union all select 'attribution', run_id from ledger.attributions
    ) as part on part.run_id = run.id
    where run.status in ('failed', 'superseded') group by 1, 2"""


class Job:
    """The job close_month, running; see close_process.py."""

    def __init__(self, house: House) -> None:
        command = [sys.executable, "-m", "tests.integration.close_process", house.reporting_url, house.metering_url]
        self._process = subprocess.Popen(command, cwd=REPOSITORY, stderr=subprocess.PIPE, text=True)

    def wait_for(self, step: str) -> None:
        """Return as a step begins."""
        begun = re.compile(rf" - {step} - STEP_START")
        assert self._process.stderr is not None
        while not begun.search(line := self._process.stderr.readline()):
            assert line, f"it has ended before {step}"

    def kill(self) -> None:
        """End it as a machine does that loses its power."""
        self._process.send_signal(signal.SIGKILL)
        self.end()

    def end(self) -> tuple[int, str]:
        """Wait for its end, and return the exit code and the last that it said."""
        assert self._process.stderr is not None
        said = "" if self._process.stderr.closed else self._process.communicate()[1]
        return self._process.returncode, said[-4000:]


@contextmanager
def job(house: House) -> Iterator[Job]:
    """Start the job, and kill what is left of it after the block."""
    started = Job(house)
    try:
        yield started
    finally:
        started.kill()


def sums(house: House) -> tuple[Any, ...]:
    """What counts: bills, costs, minutes and the number of records."""
    return house.query(_SUMS)[0]


def assert_whole(house: House) -> None:
    """No run is in the making, and what has failed or was replaced has no records; marts hold what counts."""
    assert house.query("select count(*) from ledger.runs where status = 'running'") == [(0,)]
    assert house.query(_HALF_WRITTEN) == []
    assert house.query("select sum(amount) from marts.project_costs_monthly") == [(sums(house)[1],)]
