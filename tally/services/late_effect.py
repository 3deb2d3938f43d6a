"""What the late events of a finalized period would change, before anybody runs the correction (rules 18 and 20).

Late is what has arrived after the load of its last finalized run, whether the metering database has loaded it yet or
not. The resources concerned are metered and rated again in plain Python, and compared with what counts. Nothing is
written, and no lock is taken: what arrives meanwhile is in the answer, or late for it.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal

from pricing.month import MonthRecord, rate_pieces
from pricing.validity import Part
from tally import __version__
from tally.domain.errors import NotFound
from tally.domain.event import Event
from tally.domain.lifecycle import lifecycle
from tally.domain.run import Run
from tally.domain.timeline import step_of
from tally.domain.usage import Gain, usage_of
from tally.services.known_types import Registry, current_registry
from tally.services.late import LateRelation, late_relations
from tally.services.pricing import price_parts
from tally.services.projection import transition_of
from tally.services.runs import finalized_runs
from tally.store.database import Connection
from tally.store.metering import late as store
from tally.store.metering.late import Counted, Resource
from tally.store.reporting.events import histories
from tally.store.reporting.pending import pending_resources

MOST_RESOURCES = 10_000  # beyond, the correction itself is the quicker way to know

_AT_ONCE = 500
_NOTHING = Counted(Decimal(0), Decimal("0.00"))


@dataclass(frozen=True, slots=True)
class ProjectEffect:
    """What a correction would add to a project for one resource, or take from it."""

    project_id: str
    minutes: Decimal
    amount: Decimal


@dataclass(frozen=True, slots=True)
class LateResource:
    """A resource with late events, in order, and what they change; without effects, they change nothing."""

    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    events: tuple[Event, ...]
    effects: tuple[ProjectEffect, ...]

    @property
    def amount(self) -> Decimal:
        """What all projects together would pay more."""
        return sum((effect.amount for effect in self.effects), Decimal("0.00"))

    @property
    def minutes(self) -> Decimal:
        """What all projects together would have used more."""
        return sum((effect.minutes for effect in self.effects), Decimal(0))


@dataclass(frozen=True, slots=True)
class Late:
    """What is late for a finalized period.

    ``resources`` are ordered by what they change in money, then in minutes, then by key; empty if there are more than
    were asked for. ``reasons`` say why a correction may find more: it would derive all resources again, or its prices
    go by whole projects.
    """

    run: Run  # the last finalized one
    currency: str
    complete: bool  # whether all resources with late events are in resources
    resources: tuple[LateResource, ...]
    relations: tuple[LateRelation, ...]
    reasons: tuple[str, ...]

    @property
    def minutes(self) -> Decimal:
        """What the resources together would have used more."""
        return sum((resource.minutes for resource in self.resources), Decimal(0))

    @property
    def amount(self) -> Decimal:
        """What they would cost more."""
        return sum((resource.amount for resource in self.resources), Decimal("0.00"))


def late(reporting: Connection, metering: Connection, period: str, most: int = MOST_RESOURCES) -> Late:
    """Return what is late for a period, and what it would change.

    Raises:
        NotFound: if the period is not finalized, so that nothing can be late for it.
    """
    finalized = finalized_runs(metering, period)
    if not finalized:
        raise NotFound(f"{period} is not finalized, so that nothing is late for it")
    run = finalized[-1]
    prices = price_parts(metering, run)
    registry = current_registry(reporting)
    # First what waits for a load, then what is loaded: what is loaded in between is in both, never in neither.
    waiting = pending_resources(reporting, run.period_to, most + 1)
    concerned = sorted({*waiting, *store.resources_outside(metering, run, most + 1)})
    complete = len(concerned) <= most
    found = [
        late_resource
        for start in range(0, len(concerned) if complete else 0, _AT_ONCE)
        for late_resource in _late_resources(
            reporting, metering, run, prices, registry, concerned[start : start + _AT_ONCE]
        )
    ]
    resources, relations = tuple(sorted(found, key=_by_effect)), tuple(late_relations(reporting, metering, run))
    currency = prices[0].version.currency
    return Late(run, currency, complete, resources, relations, tuple(_reasons(run, registry, prices)))


def _by_effect(resource: LateResource) -> tuple[Decimal, Decimal, str, str, str]:
    key = (resource.cloud, resource.resource_type, resource.resource_id)
    amounts = sum((abs(effect.amount) for effect in resource.effects), Decimal(0))
    lengths = sum((abs(effect.minutes) for effect in resource.effects), Decimal(0))
    return (-amounts, -lengths, *key)


def _reasons(run: Run, registry: Registry, prices: Sequence[Part]) -> Iterator[str]:
    if run.registry_version != registry.version:
        yield f"the registry of resource types has changed, from version {run.registry_version} to {registry.version}"
    if run.code_version != __version__:
        yield f"Tally has changed, from version {run.code_version} to {__version__}"
    for version in {part.version.version: part.version for part in prices if part.version.counts_projects}:
        yield f"version {version} prices what a project uses together, which is told here by resource alone"


def _late_resources(
    reporting: Connection,
    metering: Connection,
    run: Run,
    prices: Sequence[Part],
    registry: Registry,
    resources: Collection[Resource],
) -> Iterator[LateResource]:
    known = store.known_events(metering, run, resources)
    counted = store.counted(metering, run, resources)
    gains = store.gains(metering, run, resources)
    for resource, history in sorted(histories(reporting, resources).items()):
        news = [event for event in history if (event.timestamp, event.event_id) not in known.get(resource, ())]
        fresh = _metered(run, prices, registry, history, gains.get(resource, ()))
        effects = tuple(_effects(counted.get(resource, {}), fresh))
        # What came after the period is late only if it changes it: by voiding what was in it.
        if effects or any(event.timestamp < run.period_to for event in news):
            ordered = tuple(sorted(news, key=lambda event: (event.timestamp, event.event_id.encode())))
            yield LateResource(resource[0], history[0].platform, *resource[1:], ordered, effects)


def _metered(
    run: Run, prices: Sequence[Part], registry: Registry, history: Sequence[Event], gains: Sequence[Gain]
) -> dict[str, Counted]:
    """What a resource comes to in the period of a run, by project."""
    whole = lifecycle(step_of(event, transition_of(registry, event)) for event in history)
    platform, resource_type = history[0].platform, history[0].resource_type
    if whole is None:
        return {}
    minutes: Counter[str] = Counter()
    for usage in usage_of(whole, run.period_from, run.metered_to, gains):
        minutes[usage.project_id] += usage.metrics["minutes"]
    key = (history[0].cloud, platform, resource_type, history[0].resource_id)
    pieces = [
        (
            next(part.version for part in reversed(prices) if part.from_ts <= u.from_ts),
            MonthRecord(*key, u.project_id, u.lifetime_no, u.from_ts, u.length_us, u.state, u.metrics),
        )
        for u in usage_of(whole, run.period_from, run.metered_to, gains, [part.from_ts for part in prices[1:]])
    ]
    amounts = dict.fromkeys(minutes, Decimal("0.00"))
    for (_, record), rating in zip(pieces, rate_pieces(pieces), strict=True):
        amounts[record.project_id] += sum(one.amount for one in rating.rates)
    return {project_id: Counted(Decimal(minutes[project_id]), amount) for project_id, amount in amounts.items()}


def _effects(before: dict[str, Counted], after: dict[str, Counted]) -> Iterator[ProjectEffect]:
    for project_id in sorted(before.keys() | after.keys()):
        old, new = before.get(project_id, _NOTHING), after.get(project_id, _NOTHING)
        if old != new:
            yield ProjectEffect(project_id, new.minutes - old.minutes, new.amount - old.amount)
