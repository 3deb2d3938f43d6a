"""What a draft of prices would have made of a month that was closed. Nothing is written, the draft is not loaded.

The usage that counts is rated by the SQL of the close, with the draft instead of the version it was rated by. Compared
are costs as they are rated, project by project: before adjustments, and where they arise, not where they are billed.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from pricing.comparison import percent_of
from pricing.model import PriceVersion
from pricing.money import total
from pricing.rating import RatingFinding, rate
from pricing.validity import Part, check_versions
from tally.domain.errors import NotFound, Refused
from tally.domain.instants import format_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.known_types import Registry, current_registry
from tally.services.pricing import loaded_versions, rows_of, version_named, with_last
from tally.store.database import Connection
from tally.store.metering.runs import latest_run
from tally.store.metering.what_if import DraftPart, ProjectAmounts, UsageShape, rated_by_draft


@dataclass(frozen=True, slots=True)
class Effect:
    """What costs are by the version that counts and by the draft: sums of rounded amounts, and of exact ones."""

    before: Decimal
    before_exact: Decimal
    after: Decimal
    after_exact: Decimal

    @property
    def difference(self) -> Decimal:
        """What would be paid more; less, if negative."""
        return self.after - self.before

    @property
    def percent(self) -> Decimal | None:
        """The difference as a share of what is paid, to 2 decimals; None of nothing."""
        return percent_of(self.difference, self.before)

    @property
    def drift_before(self) -> Decimal:
        """What rounding adds by the version that counts."""
        return self.before - self.before_exact

    @property
    def drift_after(self) -> Decimal:
        """What rounding would add by the draft."""
        return self.after - self.after_exact


@dataclass(frozen=True, slots=True)
class ProjectEffect(Effect):
    """The same of one project."""

    cloud: str
    project_id: str


@dataclass(frozen=True, slots=True)
class UnsettledUsage:
    """What the draft leaves open, in how many usage records: each would be a finding of a close."""

    finding: RatingFinding
    platform: str
    resource_type: str
    records: int


@dataclass(frozen=True, slots=True)
class WhatIf:
    """The comparison; projects are ordered by their difference, those who would pay most more first."""

    run: Run  # as of which usage counts
    draft: PriceVersion
    projects: tuple[ProjectEffect, ...]
    unsettled: tuple[UnsettledUsage, ...]

    @property
    def total(self) -> Effect:
        """The sum of all projects."""
        return Effect(
            total(project.before for project in self.projects),
            sum((project.before_exact for project in self.projects), Decimal(0)),
            total(project.after for project in self.projects),
            sum((project.after_exact for project in self.projects), Decimal(0)),
        )

    @property
    def losers(self) -> int:
        """How many projects would pay more."""
        return sum(project.difference > 0 for project in self.projects)

    @property
    def winners(self) -> int:
        """How many projects would pay less."""
        return sum(project.difference < 0 for project in self.projects)


def what_if(reporting: Connection, metering: Connection, period: str, draft: PriceVersion) -> WhatIf:
    """Rate the usage that counts of a closed month by a draft, whatever month the draft is for.

    A draft that begins inside the month prices the rest of it, and the loaded versions what comes before.

    Raises:
        NotFound: if the month has no completed run.
        Refused: if the draft is in another currency: amounts of two currencies are never compared. Also if it begins
            inside the month, and cannot follow the versions before it, or counters would have to be cut there.
    """
    run = latest_run(metering, period)
    if run is None:
        raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
    counted = version_named(metering, run.pricing_version or "")
    if counted.currency != draft.currency:
        currencies = f"{period} was rated in {counted.currency}, {draft.version} is in {draft.currency}"
        raise Refused("amounts of two currencies are not compared", [currencies])
    parts = [
        DraftPart(rows_of(part.version), part.from_ts, part.to_ts) for part in _parts(metering, run, draft)
    ]
    rated = rated_by_draft(metering, run.id, parts)
    if rated.cut_counters:
        since = f"{draft.version} begins at {format_instant(parts[-1].from_ts)}"
        cut = f"inside {rated.cut_counters} record(s), such as of {rated.cut_example}, whose counters have a price"
        raise Refused("what counters gained is kept by usage record", [f"{since}, {cut}: let it begin with a month"])
    effects = sorted(
        map(_effect, rated.amounts), key=lambda effect: (-effect.difference, effect.cloud, effect.project_id)
    )
    return WhatIf(run, draft, tuple(effects), tuple(_unsettled(rated.shapes, current_registry(reporting), draft)))


def _parts(metering: Connection, run: Run, draft: PriceVersion) -> tuple[Part, ...]:
    loaded = [version for version in loaded_versions(metering) if version.version != draft.version]
    parts = with_last(draft, loaded, BillingPeriod.parse(run.period, run.zone))
    check_versions(part.version for part in parts)
    return parts


def _effect(row: ProjectAmounts) -> ProjectEffect:
    return ProjectEffect(row.before, row.before_exact, row.after, row.after_exact, row.cloud, row.project_id)


def _unsettled(shapes: Sequence[UsageShape], registry: Registry, draft: PriceVersion) -> Iterator[UnsettledUsage]:
    found: Counter[tuple[RatingFinding, str, str]] = Counter()
    for shape in shapes:
        for finding in _findings(shape, registry, draft):
            found[finding, shape.platform, shape.resource_type] += shape.records
    for (finding, platform, resource_type), records in found.items():
        yield UnsettledUsage(finding, platform, resource_type, records)


def _findings(shape: UsageShape, registry: Registry, draft: PriceVersion) -> Sequence[RatingFinding]:
    registered = registry.get((shape.platform, shape.resource_type))
    usage: dict[str, Any] = {} if shape.type is None else {"type": shape.type}
    return rate(
        draft,
        platform=shape.platform,
        resource_type=shape.resource_type,
        state=shape.state,
        length_us=1,
        usage=usage | dict.fromkeys(shape.metrics, 1),
        normal_states=registered.normal_states if registered else (),
        descriptive=registered.descriptive if registered else (),
    ).findings
