"""The usage of one resource in a period: its lifecycle clipped, with gauges and counters (rules 13 to 15).

This is usage in plain Python, for a reader who asks for a few resources. That of all resources is derived by dbt
(int_usage_records), and tests hold the two to each other.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any, NamedTuple

from tally.domain.lifecycle import Interval, Lifecycle, Lifetime
from tally.domain.timeline import Step

MICROSECOND = timedelta(microseconds=1)


class Gain(NamedTuple):
    """What a sampled counter gained; ``since`` is the sample before, None for the first one of its series."""

    since: datetime | None
    at: datetime
    metric: str
    quantity: Decimal


@dataclass(frozen=True, slots=True)
class Usage:
    """One usage record: an interval clipped to the period. An event that lies outside the period bounds nothing."""

    lifetime_no: int
    from_ts: datetime
    to_ts: datetime
    project_id: str
    state: str
    size: dict[str, Any]
    counters: dict[str, Decimal]
    caused_by: Step | None
    ended_by: Step | None

    @property
    def length_us(self) -> int:
        """The exact length in microseconds."""
        return (self.to_ts - self.from_ts) // MICROSECOND

    @property
    def metrics(self) -> dict[str, Any]:
        """Minutes, for reading; count; the gauges and attributes of the size; counters."""
        return {"minutes": minutes(self.length_us), "count": 1} | self.size | self.counters


def minutes(length_us: int) -> Decimal:
    """A length in minutes, half-up to 6 decimals: rating uses the exact length."""
    return Decimal((length_us + 30) // 60).scaleb(-6)


def usage_of(
    whole: Lifecycle,
    start: datetime,
    end: datetime,
    sampled: Sequence[Gain] = (),
    cuts: Sequence[datetime] = (),
) -> list[Usage]:
    """Return the usage of the period [start, end), in order.

    Args:
        whole: the history of a resource.
        start: of the period.
        end: of the period, exclusive.
        sampled: what sampled counters gained about then.
        cuts: instants within the period, in order, at which every record ends and another one begins.
    """
    gains = gains_from_samples(whole, start, sampled)
    for life in whole.lifetimes:
        gains.setdefault(life.no, []).extend(_from_events(life))
    return [
        record
        for life in whole.lifetimes
        for interval in life.intervals
        for span in pairwise([start, *cuts, end])
        for record in _clipped(life, interval, *span, gains)
    ]


Gained = tuple[datetime, str, Decimal]  # when it counts, the metric, how much


def gains_from_samples(whole: Lifecycle, start: datetime, sampled: Sequence[Gain]) -> dict[int, list[Gained]]:
    """Return what each life takes of what was sampled about a period that begins at ``start``, by its number.

    A gain that spans the end of a life belongs to it, at its end.
    """
    lives = [life for life in whole.lifetimes if life.intervals]
    return {
        life.no: list(_from_samples(life, former, following, start, sampled))
        for life, former, following in _with_neighbours(lives)
    }


def _clipped(
    life: Lifetime, interval: Interval, start: datetime, end: datetime, gains: dict[int, list[Gained]]
) -> Iterator[Usage]:
    from_ts = max(interval.from_ts, start)
    to_ts = end if interval.to_ts is None else min(interval.to_ts, end)
    if from_ts >= to_ts:
        return
    counters: dict[str, Decimal] = {}
    for at, metric, quantity in gains[life.no]:
        # What is used up to the end of a life belongs to its last interval, also at the end of the period.
        if from_ts <= at < to_ts or at == to_ts == life.closed_at:
            counters[metric] = counters.get(metric, Decimal(0)) + quantity
    yield Usage(
        life.no,
        from_ts,
        to_ts,
        interval.project_id,
        interval.state,
        interval.size,
        counters,
        interval.caused_by if interval.from_ts >= start else None,
        interval.ended_by if interval.to_ts is not None and interval.to_ts <= end else None,
    )


def _from_events(life: Lifetime) -> list[Gained]:
    return [
        (use.timestamp, metric, Decimal(quantity))
        for use in life.uses
        for metric, quantity in use.payload["usage"].items()
    ]


def _with_neighbours(lives: Sequence[Lifetime]) -> Iterator[tuple[Lifetime, Lifetime | None, Lifetime | None]]:
    around = [None, *lives, None]
    for (former, life), following in zip(pairwise(around[:-1]), around[2:], strict=True):
        if life is not None:
            yield life, former, following


def _from_samples(
    life: Lifetime, former: Lifetime | None, following: Lifetime | None, start: datetime, sampled: Iterable[Gain]
) -> Iterator[Gained]:
    """Yield what belongs to a life: a gain that spans its end, too; a first sample only if it began in the period."""
    for since, at, metric, quantity in sampled:
        if life.opened_at > at:
            continue
        if since is None:
            began_here = life.opened_at >= start and not life.open_left
            belongs = began_here and (following is None or following.opened_at > at)
        else:
            ended_before = life.closed_at is not None and life.closed_at <= since
            spans_the_former = former is not None and former.closed_at is not None and former.closed_at > since
            belongs = not ended_before and not spans_the_former
        if belongs:
            yield at if life.closed_at is None else min(at, life.closed_at), metric, quantity
