"""A run: one attempt to meter and rate one period, all clouds (rule 17)."""

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal, TypedDict
from uuid import UUID

RunStatus = Literal["running", "completed", "finalized", "superseded", "failed"]
RunKind = Literal["regular", "correction"]
RunScope = Literal["all", "changed"]  # all resources, or those with events that the finalized records do not know
PeriodStatus = Literal["open", "grace", "closable", "finalized", "corrected"]


class PriceChange(TypedDict):
    """A price version that holds from an instant within the period on."""

    version: str
    hash: str
    since: str  # such as 2026-03-16T00:00:00Z


@dataclass(frozen=True, slots=True)
class Run:
    """One row of ledger.runs."""

    id: UUID
    period: str
    period_from: datetime
    period_to: datetime
    zone: str
    kind: RunKind
    corrects_run_id: UUID | None  # of a correction: the regular run
    since_load_id: int | None  # of a correction: the last load that the finalized records know
    scope: RunScope
    reason: str | None
    status: RunStatus
    preliminary: bool
    metered_to: datetime
    load_id: int
    registry_version: int
    pricing_version: str | None
    pricing_hash: str | None
    price_changes: list[PriceChange] = field(hash=False)  # what it rates by later in the period, in the order of time
    code_version: str
    counter_fetch_id: int | None  # the sampled counters that it reads
    counters_hash: str | None
    inputs_hash: str | None
    outputs_hash: str | None
    failure: str | None
    started_at: datetime
    completed_at: datetime | None
    finalized_at: datetime | None

    @property
    def price_versions(self) -> dict[str, str]:
        """The versions that it rates by, in the order of time, with their hashes."""
        first = {self.pricing_version: self.pricing_hash or ""} if self.pricing_version else {}
        return first | {change["version"]: change["hash"] for change in self.price_changes}


@dataclass(frozen=True, slots=True)
class Check:
    """The verdict of one invariant on one run."""

    name: str
    passed: bool
    violations: int
    detail: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that stands between a run and its finalization (blocking), or is worth knowing."""

    kind: str
    blocking: bool
    cloud: str
    platform: str
    resource_type: str
    subject: str
    detail: str
    count: int = 1                  # things that stand behind it
    at_risk: Decimal | None = None  # money, in the currency of the run; None: it cannot be told


def period_status(
    now: datetime, period_to: datetime, grace_ends: datetime, *, finalized: bool, corrected: bool = False
) -> PeriodStatus:
    """Where a period stands: open until its end, in grace until grace_ends, then closable until it is finalized.

    It is corrected once a correction of it has written records.
    """
    if finalized:
        return "corrected" if corrected else "finalized"
    if now < period_to:
        return "open"
    return "grace" if now < grace_ends else "closable"
