"""The picture of a resource over its month: a band of states, and a lane for each metric that shows its size.

Whole numbers of a grid that is WIDTH wide; the template draws it. Time is divided as microseconds, so that neighbours
meet exactly.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any
from zoneinfo import ZoneInfo

from tally.domain.instants import microseconds, parse_instant

WIDTH = 10_000
_LEAST_WIDTH = 12      # so that a second can still be seen
_LETTER = 95           # of a label in the grid
_MOST_LANES = 6
LANE = 300
GAP = 60


@dataclass(frozen=True, slots=True)
class Bar:
    """A box from ``x``; ``share`` in percent says how high it is, or how much of the price the state costs."""

    x: int
    width: int
    share: int
    label: str   # empty where it does not fit
    title: str   # always


@dataclass(frozen=True, slots=True)
class Lane:
    """One metric: a bar for each period that has it."""

    metric: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Tick:
    """A day of the month."""

    x: int
    label: str


@dataclass(frozen=True, slots=True)
class Picture:
    """All of it, and its description in words for who cannot see it."""

    states: tuple[Bar, ...]
    lanes: tuple[Lane, ...]
    ticks: tuple[Tick, ...]
    description: str


def picture(item: Mapping[str, Any], period_from: datetime, period_to: datetime, zone: ZoneInfo) -> Picture:
    """Lay out one line item of a bill over its billing period."""
    scale = _Scale(period_from, period_to)
    periods = item["periods"]
    metrics = list(dict.fromkeys(metric for period in periods for metric in period["usage"]))[:_MOST_LANES]
    states = tuple(scale.bar(p, _percent(p["state_modifier"], Decimal(1)), p["state"], p["state"]) for p in periods)
    lanes = tuple(Lane(metric, _bars(scale, metric, periods)) for metric in metrics)
    return Picture(states, lanes, tuple(_ticks(scale, zone)), _in_words(periods, zone))


class _Scale:
    """From instants to the grid."""

    def __init__(self, period_from: datetime, period_to: datetime) -> None:
        self.start = period_from
        self.end = period_to
        self._length = microseconds(period_to - period_from)

    def x(self, instant: datetime) -> int:
        return microseconds(instant - self.start) * WIDTH // self._length

    def bar(self, period: Mapping[str, Any], share: int, label: str, title: str) -> Bar:
        start, end = self.x(parse_instant(period["from"])), self.x(parse_instant(period["to"]))
        width = max(end - start, _LEAST_WIDTH)
        fits = len(label) * _LETTER + _LETTER <= width
        return Bar(start, width, share, label if fits else "", f"{title}, {period['hours']} hours")


def _bars(scale: _Scale, metric: str, periods: Sequence[Mapping[str, Any]]) -> tuple[Bar, ...]:
    most = max(period["usage"].get(metric, 0) for period in periods)
    return tuple(
        scale.bar(period, _percent(value, most), f"{value}", f"{metric} {value}")
        for period in periods
        for value in [period["usage"].get(metric)]
        if value is not None
    )


def _percent(value: Decimal | int, whole: Decimal | int) -> int:
    return int(100 * value / whole) if whole else 0


def _ticks(scale: _Scale, zone: ZoneInfo) -> list[Tick]:
    """Mondays would move from month to month: the 1st, 8th, 15th, 22nd and 29th stay."""
    first = scale.start.astimezone(zone)
    days = [first + timedelta(days=number) for number in range(0, 31, 7)]
    return [Tick(scale.x(day), f"{day:%-d %b}") for day in days if day < scale.end]


def _in_words(periods: Sequence[Mapping[str, Any]], zone: ZoneInfo) -> str:
    parts = []
    for period in periods:
        begin = parse_instant(period["from"]).astimezone(zone)
        sizes = ", ".join(f"{metric} {value}" for metric, value in period["usage"].items())
        parts.append(f"from {begin:%-d %B %H:%M} {period['state']} ({sizes})")
    return "; ".join(parts)
