"""What can stand between a run and its finalization, and what a policy makes of it (rules 19 and 26).

A run finds (Found); the policy says by kind and cloud what blocks; a waiver lets a kind pass for a period. Where
findings come from, and where they are kept, does not belong here.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Literal

Action = Literal["block", "warn", "ignore"]
ACTIONS: tuple[Action, ...] = ("block", "warn", "ignore")

# What is seen in the reporting database and in the inventory, when a run is completed and again when it is finalized.
OBSERVED_KINDS = ("dead_letter", "stale_events", "stale_sync", "listed_not_metered", "metered_not_listed")
# What a run finds in its own inputs; it is found again only by another run.
RUN_KINDS = (
    "open_left",
    "anomaly",
    "unpriced",
    "ambiguous_metric",
    "missing_gauge",
    "counter_source_failed",
    "counter_hole",
    "counter_unplaced",
    "unlisted_state",
    "unlisted_type",
    "unknown_project",
    "several_parents",
    "cycle",
    "unreadable_adjustment",
    "adjustment_not_applied",
    "rounding_drift",
)
KINDS = (*RUN_KINDS, *OBSERVED_KINDS)
EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class Found:
    """Something that a person should look at, before it is judged; ``count`` things of one kind stand behind it.

    ``at_risk`` is the money that they may be worth, in the currency of the run; None where it cannot be told.
    """

    kind: str
    cloud: str
    platform: str
    resource_type: str
    subject: str
    detail: str
    count: int = 1
    at_risk: Decimal | None = None

    @property
    def example(self) -> str:
        """What it is about, for a person."""
        about = " ".join(text for text in (self.platform, self.resource_type, self.subject) if text)
        return f"{about}: {self.detail}"


@dataclass(frozen=True, slots=True)
class Rule:
    """What becomes of a kind of finding: it blocks where a cloud has more than ``above`` of them, and warns below."""

    action: Action
    above: int = 0


@dataclass(frozen=True, slots=True)
class Spans:
    """How long a cloud may be silent before the end of a period; None: whatever is said more generally."""

    events: timedelta | None = None
    sync: timedelta | None = None


@dataclass(frozen=True)
class Policy:
    """What blocks finalization, by kind, and after which silence a cloud counts as stale."""

    rules: Mapping[str, Rule]
    events: timedelta
    sync: timedelta
    platforms: Mapping[str, Spans] = field(default_factory=dict)
    clouds: Mapping[str, Spans] = field(default_factory=dict)

    def action(self, kind: str, count: int) -> Action:
        """What becomes of ``count`` findings of a kind in one cloud. A kind that the policy does not know blocks."""
        rule = self.rules.get(kind, Rule("block"))
        return "warn" if rule.action == "block" and count <= rule.above else rule.action

    def events_span(self, platform: str, cloud: str) -> timedelta:
        """How long the collector of a cloud may be silent: the cloud's own span, its platform's, or that of all."""
        own, general = self.clouds.get(cloud, Spans()), self.platforms.get(platform, Spans())
        return own.events or general.events or self.events

    def sync_span(self, platform: str, cloud: str) -> timedelta:
        """How long a cloud may go without a completed reconciliation, likewise."""
        own, general = self.clouds.get(cloud, Spans()), self.platforms.get(platform, Spans())
        return own.sync or general.sync or self.sync


@dataclass(frozen=True, slots=True)
class Waiver:
    """Who lets which kind of finding pass for a period, why, and until when; cloud '' is every cloud."""

    id: int
    period: str
    kind: str
    cloud: str
    reason: str
    actor: str
    until: datetime | None  # exclusive: it no longer waives then
    created_at: datetime

    def waives(self, kind: str, cloud: str, now: datetime) -> bool:
        """Whether it lets the findings of a kind in a cloud pass at an instant."""
        return self.kind == kind and self.cloud in {"", cloud} and (self.until is None or now < self.until)


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a completeness report: all findings of a kind in a cloud ('' where they are of no cloud).

    ``at_risk`` adds up what can be told, None if nothing can; ``untold`` counts the things of which it cannot.
    """

    kind: str
    cloud: str
    count: int
    examples: tuple[str, ...]
    at_risk: Decimal | None
    untold: int
    action: Action
    waiver: Waiver | None = None

    @property
    def blocks(self) -> bool:
        """Whether it stands in the way of finalization: the policy says so, and nobody has waived it."""
        return self.action == "block" and self.waiver is None


@dataclass(frozen=True, slots=True)
class Group:
    """Findings of one kind in one cloud, added up and not yet judged."""

    kind: str
    cloud: str
    count: int
    examples: tuple[str, ...]
    at_risk: Decimal | None
    untold: int


def grouped(found: Iterable[Found]) -> list[Group]:
    """Add findings up by (kind, cloud), in this order."""
    groups: dict[tuple[str, str], list[Found]] = {}
    for each in found:
        groups.setdefault((each.kind, each.cloud), []).append(each)
    return [_group(kind, cloud, members) for (kind, cloud), members in sorted(groups.items())]


def judged(group: Group, action: Action, waivers: Sequence[Waiver], now: datetime) -> Line:
    """Make a line of a group; the first waiver that is in force is the one that counts."""
    waiver = next((each for each in waivers if each.waives(group.kind, group.cloud, now)), None)
    waiver = waiver if action == "block" else None
    told = (group.kind, group.cloud, group.count, group.examples, group.at_risk, group.untold)
    return Line(*told, action=action, waiver=waiver)


def _group(kind: str, cloud: str, members: Sequence[Found]) -> Group:
    told = [each.at_risk for each in members if each.at_risk is not None]
    return Group(
        kind,
        cloud,
        sum(each.count for each in members),
        tuple(each.example for each in members[:EXAMPLES]),
        sum(told, Decimal("0.00")) if told else None,
        sum(each.count for each in members if each.at_risk is None),
    )
