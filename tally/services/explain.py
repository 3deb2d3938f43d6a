"""From a cent back to what it stands on: formula, price, usage record, events, run (rule 21). Reading only."""

from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from uuid import UUID

from pricing.model import Formula
from pricing.terms import Basis
from pricing.terms_working import work_out_terms
from pricing.working import Working, work_out
from tally.domain.errors import NotFound
from tally.domain.lifecycle import Interval, Lifecycle, Lifetime, lifecycle
from tally.domain.principal import ProjectKey
from tally.domain.resource_type import Effect, Transition
from tally.domain.run import Run
from tally.domain.timeline import Step, step_of
from tally.domain.usage import MICROSECOND, gains_from_samples
from tally.services.pricing import version_named
from tally.store.database import Connection
from tally.store.metering import explain as store
from tally.store.metering import late as sample_store
from tally.store.metering import runs as run_store
from tally.store.metering.explain import RatedRecord, UsageRecord

MOST_INCREMENTS = 1000

_IGNORED = Transition(Effect.IGNORE)


@dataclass(frozen=True, slots=True)
class Increment:
    """What one event, or one sample, added to a counter; a sample has no event, nor has what may not be seen."""

    at: datetime
    quantity: Decimal
    event: Step | None


@dataclass(frozen=True, slots=True)
class Other:
    """A rated record that reverses one, or that one reverses."""

    record_id: UUID
    run_id: UUID


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a rated record stands on.

    ``caused_by`` and ``ended_by`` are the events that bound the interval of the usage, also outside the period; None at
    what is open, or belongs to a project that is not for the one who asks. ``increments`` are of its counter, the first
    MOST_INCREMENTS of ``increment_count``. ``working`` is None if the price is no longer there.
    """

    record: RatedRecord
    working: Working | None
    usage: UsageRecord
    run: Run
    caused_by: Step | None
    ended_by: Step | None
    increments: tuple[Increment, ...]
    increment_count: int
    reverses: Other | None
    reversed_by: Other | None

    @property
    def holds(self) -> bool:
        """Whether working it out again comes to the same cent."""
        return self.working is not None and self.working.amount == self.record.amount


def explain(
    metering: Connection, record_id: UUID, period: str | None = None, visible: Collection[ProjectKey] | None = None
) -> Explanation:
    """Explain a rated record of a period, or of whatever period, which takes longer.

    Raises:
        NotFound: if there is none of that id, or it is of a project that is not visible (None: all are).
    """
    record = _find(metering, record_id, period, visible)
    usage = store.usage_record(metering, record.resource, record.usage_record_id)
    if usage is None:
        raise NotFound(f"the usage record of rated record {record_id} is gone: see tally verify")
    run = _run(metering, record.run_id)
    whole = _lifecycle(metering, record, usage)
    life, interval = _interval(whole, usage)
    steps = [interval.caused_by, interval.ended_by] if interval else [None, None]
    caused_by, ended_by = (_seen(step, record.cloud, visible) for step in steps)
    if ended_by is None:
        usage = usage._replace(to_event_id=None)  # else the id of an event that is not for the one who asks
    increments: list[Increment] = []
    if whole and life and record.dimension in usage.counters:
        increments = _increments(metering, record, usage, run, whole, life)
    return Explanation(
        record,
        _work_out(metering, record, usage),
        usage,
        run,
        caused_by,
        ended_by,
        tuple(replace(one, event=_seen(one.event, record.cloud, visible)) for one in increments[:MOST_INCREMENTS]),
        len(increments),
        _reversed(metering, record),
        _reversal(metering, record),
    )


def _find(
    metering: Connection, record_id: UUID, period: str | None, visible: Collection[ProjectKey] | None
) -> RatedRecord:
    for run in run_store.select_runs(metering, period=period, statuses=("completed", "finalized")):
        found = store.find_rated_record(metering, run.id, record_id, visible)
        if found is not None:
            return found
    where = f" in {period}" if period else ""
    raise NotFound(f"no rated record {record_id} counts{where}; a FOCUS export has their ids, as x_RatedRecordId")


def _run(metering: Connection, run_id: UUID) -> Run:
    return run_store.select_runs(metering, run_id=run_id)[0]


def _work_out(metering: Connection, record: RatedRecord, usage: UsageRecord) -> Working | None:
    if record.formula is None:
        return None
    from_ts, to_ts = _span(record, usage)
    length_us = (to_ts - from_ts) // MICROSECOND
    modifiers = record.state_modifier, record.type_modifier
    if record.basis is None:
        return work_out(Formula(record.formula), length_us, record.quantity, record.price, *modifiers)
    version = version_named(metering, record.pricing_version)
    kind = (record.platform, record.resource_type)
    price = next((one for one in version.prices_of(*kind) if one.metric == record.dimension and one.terms), None)
    if price is None:
        return None
    return work_out_terms(price, Basis(**record.basis), length_us, record.quantity, modifiers)


def _lifecycle(metering: Connection, record: RatedRecord, usage: UsageRecord) -> Lifecycle | None:
    """Read the events again, as the run that metered the usage has read them; of a reversal, the usage it reverses."""
    metered = usage
    if usage.reverses_id is not None:
        metered = store.usage_record(metering, record.resource, usage.reverses_id) or usage
    run = _run(metering, metered.run_id)
    does = store.transitions(metering, record.platform, record.resource_type, run.registry_version)
    history = store.history(metering, record.resource, run.load_id)
    return lifecycle(step_of(event, does.get(event.event_type, _IGNORED)) for event in history)


def _interval(whole: Lifecycle | None, usage: UsageRecord) -> tuple[Lifetime | None, Interval | None]:
    for life in whole.lifetimes if whole else ():
        for interval in life.intervals:
            ends_later = interval.to_ts is None or interval.to_ts >= usage.to_ts
            if interval.from_ts <= usage.from_ts and ends_later:
                return life, interval
    return None, None


def _seen(step: Step | None, cloud: str, visible: Collection[ProjectKey] | None) -> Step | None:
    return step if step is None or visible is None or (cloud, step.project_id) in visible else None


def _increments(
    metering: Connection, record: RatedRecord, usage: UsageRecord, run: Run, whole: Lifecycle, life: Lifetime
) -> list[Increment]:
    """What the counter of a record sums up, in the order of time."""
    told = [
        Increment(use.timestamp, Decimal(use.payload["usage"][record.dimension]), use)
        for use in life.uses
        if record.dimension in use.payload["usage"]
    ]
    sampled = sample_store.gains(metering, run, [record.resource]).get(record.resource, [])
    told += [
        Increment(at, quantity, None)
        for at, metric, quantity in gains_from_samples(whole, run.period_from, sampled).get(life.no, [])
        if metric == record.dimension
    ]
    from_ts, to_ts = _span(record, usage)
    within = [one for one in told if from_ts <= one.at < to_ts or one.at == to_ts == life.closed_at]
    return sorted(within, key=lambda one: one.at)


def _span(record: RatedRecord, usage: UsageRecord) -> tuple[datetime, datetime]:
    """The part of the usage that a rated record pays for."""
    return record.from_ts or usage.from_ts, record.to_ts or usage.to_ts


def _reversed(metering: Connection, record: RatedRecord) -> Other | None:
    if record.reverses_id is None:
        return None
    original = store.rated_record(metering, record.resource, record.reverses_id)
    return Other(original.id, original.run_id) if original else None


def _reversal(metering: Connection, record: RatedRecord) -> Other | None:
    found = store.reversal_of(metering, record.resource, record.id)
    return Other(*found) if found else None
