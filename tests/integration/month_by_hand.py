"""A whole run of any month without Dagster, in this process: what the job does, with a place to interfere."""

from collections.abc import Callable, Sequence
from datetime import datetime

from assets.checks import GATES
from tally.domain.period import BillingPeriod
from tally.domain.run import Check, Run
from tally.services import completeness, runs
from tally.services.bills import make_bills
from tally.services.completeness_policy import shipped_policy
from tally.services.correct import NOTHING_SPECIAL, CorrectionRequest
from tally.services.counters import Counters
from tally.store.database import Connection
from tally.store.metering.checks import invariant, invariant_names
from tally.store.metering.runs import mark_finalized, select_runs
from tests.integration.metering_sql import NOW, USAGE, dbt


def run_month(
    reporting: Connection,
    metering: Connection,
    period: str = "2026-03",
    zone: str = "UTC",
    *,
    now: datetime = NOW,
    request: CorrectionRequest = NOTHING_SPECIAL,
    counters: Counters | None = None,
    derived: Callable[[Connection], object] = lambda metering: None,  # noqa: ARG005
    finalize: bool = True,
) -> Run:
    """Run a month, and finalize it if it is the first time; ``derived`` may change what dbt has made of its usage."""
    with runs.metering_lock(metering):
        run = runs.start(reporting, metering, BillingPeriod.parse(period, zone), lambda: now, counters, request)
        with runs.making(metering, run):
            dbt(metering, "run", run, USAGE)
            derived(metering)
            _check(metering, run, GATES["usage"])
            runs.write_usage(metering, run)
            dbt(metering, "run", run, "int_rated_records")
            runs.write_rated(metering, run)
            make_bills(metering, run)
            _check(metering, run, sorted(invariant_names()))
            completeness.record(reporting, metering, run, shipped_policy())
            completed = runs.complete(metering, run, lambda: now)
        if finalize and completed.status == "completed":
            mark_finalized(metering, run.id, now)
    return select_runs(metering, run_id=run.id)[0]


def _check(metering: Connection, run: Run, names: Sequence[str]) -> None:
    checks = []
    for name in names:
        rows = metering.execute(invariant(name).query(run).encode()).fetchall()
        checks.append(Check(name, not rows, len(rows), str(rows[:1])))
    runs.record_checks(metering, run, checks)
    assert all(check.passed for check in checks), [check for check in checks if not check.passed]
