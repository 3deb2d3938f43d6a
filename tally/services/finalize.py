"""Finalization: a completed run becomes immutable, unless something speaks against it (rule 19).

Which findings do is decided by the completeness report.
"""

from datetime import datetime, timedelta

from tally.domain.completeness import Policy
from tally.domain.errors import Refused
from tally.domain.instants import format_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import completeness
from tally.services.completeness_policy import shipped_policy
from tally.services.late import late_relations
from tally.services.load import load
from tally.services.runs import REQUIRED_CHECKS, Clock
from tally.store.database import Connection
from tally.store.metering import runs as store
from tally.store.metering.late import events_outside


def finalize(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    grace: timedelta,
    clock: Clock,
    policy: Policy | None = None,
) -> Run:
    """Finalize the live run of a period; the caller holds the metering lock.

    What has arrived is loaded first, so that an event the run does not know is noticed. What the run has found is
    looked at again, and judged by the policy of now; without one, by the shipped one.

    Raises:
        Refused: with every reason that speaks against it.
    """
    load(reporting, metering, clock)
    now = clock()
    run = _live_run(metering, period)
    if run.status != "finalized":
        completeness.record(reporting, metering, run, policy or shipped_policy())
    reasons = refusals(reporting, metering, run, period, grace, now)
    if reasons:
        raise Refused(f"{period} cannot be finalized", reasons)
    with metering.transaction():
        completeness.keep_waivers(metering, run, now)
        store.mark_finalized(metering, run.id, now)
    return store.select_runs(metering, run_id=run.id)[0]


def refuse_early(metering: Connection, period: BillingPeriod, grace: timedelta, now: datetime) -> None:
    """Refuse what is finalized, not closed, or not over, before anything is done to finalize it.

    Raises:
        Refused: with every reason of these; finalize may have others.
    """
    run = _live_run(metering, period)
    if reasons := _finalized_already(run, now) or _too_early(run, grace, now):
        raise Refused(f"{period} cannot be finalized", reasons)


def refusals(
    reporting: Connection, metering: Connection, run: Run, period: BillingPeriod, grace: timedelta, now: datetime
) -> list[str]:
    """Everything that speaks against finalizing a run, one line each."""
    return _finalized_already(run, now) or [
        *_too_early(run, grace, now),
        *_in_the_making(metering, period),
        *_unproved(metering, run),
        *completeness.blocking(metering, run, now),
        *_outdated(reporting, metering, run, period),
    ]


def _live_run(metering: Connection, period: BillingPeriod) -> Run:
    run = store.live_run(metering, str(period))
    if run is None:
        raise Refused(f"{period} cannot be finalized", [f"it has no completed run; close it: tally close {period}"])
    return run


def _finalized_already(run: Run, now: datetime) -> list[str]:
    if run.status != "finalized":
        return []
    late = f"what arrives late is a correction: tally correct {run.period}"
    return [f"it is finalized already, since {format_instant(run.finalized_at or now)}; {late}"]


def _too_early(run: Run, grace: timedelta, now: datetime) -> list[str]:
    if now < run.period_to:
        return [f"it ends only at {format_instant(run.period_to)}"]
    if now < run.period_to + grace:
        return [f"its grace ends only at {format_instant(run.period_to + grace)}"]
    if run.preliminary:
        return ["its run is preliminary (month to date); close it again now that it has ended"]
    return []


def _in_the_making(metering: Connection, period: BillingPeriod) -> list[str]:
    running = store.running_run(metering, str(period))
    broken_off = "is being made step by step, or was broken off; complete it, or close again"
    return [f"run {running.id} {broken_off}: tally close {period}"] if running else []


def _unproved(metering: Connection, run: Run) -> list[str]:
    verdicts = {check.name: check for check in store.select_checks(metering, run.id)}
    missing = sorted(REQUIRED_CHECKS - verdicts.keys())  # such as those that an earlier version of Tally did not make
    again = f"close it again: tally close {run.period}"
    reasons = [f"not checked in its run: {', '.join(missing)}; {again}"] if missing else []
    return reasons + [f"check {check.name} failed: {check.detail}" for check in verdicts.values() if not check.passed]


def _outdated(reporting: Connection, metering: Connection, run: Run, period: BillingPeriod) -> list[str]:
    again = f"after its run; close it again: tally close {period}"
    reasons = []
    if outside := events_outside(metering, run):
        reasons.append(f"{outside} event(s) arrived {again}")
    if relations := late_relations(reporting, metering, run):
        reasons.append(f"{len(relations)} version(s) of relations between projects were written {again}")
    if run.zone != period.zone:
        reasons.append(f"its run is in zone {run.zone}, the installation in {period.zone}; close it again")
    return reasons
