"""Corrections as a person asks for them: what there is to correct, and what a correction has come to.

The run of a correction is made like every other (runs.py, correct.py).
"""

from dataclasses import dataclass

from tally.domain.errors import Refused
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.correct import CorrectionRequest
from tally.services.runs import finalized_runs
from tally.store.database import Connection
from tally.store.metering.differences import BillSum, ProjectSum, bill_sum, project_sums


@dataclass(frozen=True, slots=True)
class Differences:
    """What a correction has written: by project, and its bills."""

    run: Run
    projects: tuple[ProjectSum, ...]
    bills: BillSum

    @property
    def empty(self) -> bool:
        """Whether nothing has changed."""
        return not self.projects and not self.bills.reversed_bills and not self.bills.new_bills


def is_finalized(metering: Connection, period: BillingPeriod) -> bool:
    """Whether any further run of the period is a correction."""
    return bool(finalized_runs(metering, str(period)))


def refuse_unless_finalized(metering: Connection, period: BillingPeriod) -> None:
    """Refuse a correction of what is not finalized.

    Raises:
        Refused: saying what to do instead.
    """
    if not is_finalized(metering, period):
        reason = f"it is not finalized, so that a close replaces its records: tally close {period}"
        raise Refused(f"{period} cannot be corrected", [reason])


def tags(request: CorrectionRequest) -> dict[str, str]:
    """How a Dagster run is told what is asked for: what assets.partitions.requested reads."""
    asked = {
        "tally/price_version": request.price_version,
        "tally/everything": "true" if request.everything else None,
        "tally/counters": "true" if request.counters else None,
        "tally/reason": request.reason,
    }
    return {name: value for name, value in asked.items() if value}


def last_correction(metering: Connection, period: BillingPeriod) -> Differences | None:
    """What the last correction of a period has written; None if it has none."""
    corrections = [run for run in finalized_runs(metering, str(period)) if run.kind == "correction"]
    if not corrections:
        return None
    run = corrections[-1]
    return Differences(run, tuple(project_sums(metering, run.id)), bill_sum(metering, run.id))
