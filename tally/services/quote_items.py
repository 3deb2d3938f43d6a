"""Usage as somebody describes it for a quote, and the usage records that metering would make of it.

What they cost is quotes.py's business. A description is judged as the events are that it stands for: by the registry.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pricing.money import MICROSECONDS_PER_HOUR
from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.instants import format_instant
from tally.domain.period import BillingPeriod
from tally.domain.resource_type import Effect, ResourceType
from tally.domain.usage import Usage
from tally.services.known_types import Registry
from tally.services.validation import PayloadRules, check_state, check_usage

MAX_ITEMS = 1000
_UNKNOWN = "unknown"  # the state of what never told one (rule 5)


@dataclass(frozen=True, slots=True)
class QuoteItem:
    """One resource in one state for a part of a month: ``hours`` from its start, [from_ts, to_ts), or all of it.

    Items with the same ``resource`` are one resource that changes. Without a state it has the one of a new resource.
    """

    platform: str
    resource_type: str
    size: Mapping[str, Any] = field(default_factory=dict)
    state: str | None = None
    hours: Decimal | int | None = None
    from_ts: datetime | None = None
    to_ts: datetime | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)  # increments of counters
    resource: str | None = None


@dataclass(frozen=True, slots=True)
class Described:
    """An item as metering would see it."""

    platform: str
    resource_type: str
    resource_id: str
    usage: Usage


def describe(items: Sequence[QuoteItem], registry: Registry, period: BillingPeriod) -> list[Described]:
    """Make the usage records of what is described, in the order of the items.

    Raises:
        InvalidInput: with everything that is wrong, item by item.
    """
    if not 0 < len(items) <= MAX_ITEMS:
        raise InvalidInput(f"a quote has 1 to {MAX_ITEMS} items, this one {len(items)}")
    rules = PayloadRules()
    described, faults = [], []
    for place, item in enumerate(items):
        try:
            described.append(_described(item, place, _registered(item, registry), rules, period))
        except InvalidInput as error:
            faults.append(f"items[{place}]: {error}")
        except InvalidEvent as error:
            faults.append(f"items[{place}]: {error.detail.replace('payload.', '')}")
    faults += _overlaps(described) if not faults else ()
    if faults:
        raise InvalidInput("; ".join(faults))
    return described


def _registered(item: QuoteItem, registry: Registry) -> ResourceType:
    registered = registry.get((item.platform, item.resource_type))
    if registered is None:
        name = f"{item.platform}.{item.resource_type}"
        raise InvalidInput(f"{name[:130]!r} is not in the registry of resource types")
    return registered


def _described(
    item: QuoteItem, place: int, registered: ResourceType, rules: PayloadRules, period: BillingPeriod
) -> Described:
    rules.check_size(dict(item.size), registered)
    check_usage(dict(item.usage), registered)
    if item.state is not None:
        check_state(item.state)
    from_ts, to_ts = _span(item, period)
    state = item.state or _state_of_new(registered)
    counters = {metric: Decimal(quantity) for metric, quantity in item.usage.items()}
    usage = Usage(1, from_ts, to_ts, "", state, dict(item.size), counters, None, None)
    return Described(item.platform, item.resource_type, item.resource or f"item {place}", usage)


def _state_of_new(registered: ResourceType) -> str:
    """The state that a creation implies, if all creations imply the same."""
    created = {step.state for step in registered.lifecycle.values() if step.effect is Effect.CREATE and step.state}
    return created.pop() if len(created) == 1 else _UNKNOWN


def _span(item: QuoteItem, period: BillingPeriod) -> tuple[datetime, datetime]:
    if item.hours is not None and (item.from_ts or item.to_ts):
        raise InvalidInput("hours and from or to: say either")
    from_ts, to_ts = item.from_ts or period.start, item.to_ts or period.end
    if item.hours is not None:
        to_ts = from_ts + _length(item.hours, period)
    if not period.start <= from_ts < to_ts <= period.end:
        month = f"{format_instant(period.start)} to {format_instant(period.end)}"
        raise InvalidInput(f"a quote is for one month, {month}: from is before to, and both lie within")
    return from_ts, to_ts


def _length(hours: Decimal | int, period: BillingPeriod) -> timedelta:
    length_us = Decimal(hours) * MICROSECONDS_PER_HOUR
    if not 0 < length_us <= period.length_us:
        longest = Decimal(period.length_us) / MICROSECONDS_PER_HOUR
        raise InvalidInput(f"hours is {str(hours)[:40]}; {period} has {longest:f}")
    if length_us != int(length_us):
        raise InvalidInput(f"hours is {str(hours)[:40]}; the finest is a microsecond")
    return timedelta(microseconds=int(length_us))


def _overlaps(described: Sequence[Described]) -> Iterator[str]:
    """A resource is in one state at a time; counted twice, it would be billed twice."""
    ends: dict[tuple[str, str, str], datetime] = {}
    for record in sorted(described, key=lambda record: record.usage.from_ts):
        key = (record.platform, record.resource_type, record.resource_id)
        if record.usage.from_ts < ends.get(key, record.usage.from_ts):
            yield f"resource {record.resource_id!r} is described twice from {format_instant(record.usage.from_ts)} on"
        ends[key] = record.usage.to_ts
