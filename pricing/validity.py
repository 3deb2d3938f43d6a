"""Which price version holds when: one for each instant of a month, or the month is not rated (rule 24).

A version holds for whole months, as the period counts them, unless it says ``mid_period: split``: then it may begin or
end with any day, at its first instant in the zone of the period, and a month has several parts. What a part does to
usage is month.py's business.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from itertools import groupby, pairwise, zip_longest
from typing import NamedTuple

from pricing.model import PRICE_KEYS, Price, PriceVersion, day_text
from tally.domain.errors import Refused
from tally.domain.period import BillingPeriod


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a month and the version that prices it: [from_ts, to_ts)."""

    version: PriceVersion
    from_ts: datetime
    to_ts: datetime


def whole(version: PriceVersion, period: BillingPeriod) -> tuple[Part, ...]:
    """The month as one version prices it, whatever month that is made for."""
    return (Part(version, period.start, period.end),)


def parts_of(versions: Iterable[PriceVersion], period: BillingPeriod) -> tuple[Part, ...]:
    """The parts of a month in the order of time: mostly one.

    Raises:
        Refused: if one of its days has no version, listing what there is; never another month's prices (rule 24).
    """
    ordered = _ordered(versions)
    spans = _within(ordered, period.first_day, period.next.first_day)
    edges = [period.first_day, *(edge for span in spans for edge in (span.begin, span.end)), period.next.first_day]
    for end, begin in zip(edges[::2], edges[1::2], strict=True):
        if end != begin:
            loaded = ", ".join(version.span for version in ordered) or "none"
            gap = [f"none holds from {end} up to, not including, {begin}"] if spans else []
            reasons = [*gap, f"loaded: {loaded}; load one for this month"]
            raise Refused(f"no price version is valid for {period}", reasons)
    return tuple(Part(version, period.instant_of(begin), period.instant_of(end)) for version, begin, end in spans)


def check_versions(versions: Iterable[PriceVersion]) -> None:
    """Raise Refused, naming every pair, if one day would have two versions, or two versions cannot share a month."""
    ordered = _ordered(versions)
    reasons = []
    for former, latter in pairwise(ordered):
        if former.valid_from == latter.valid_from:
            reasons.append(f"{former.version} and {latter.version} both begin with {day_text(latter.valid_from)}")
        elif former.valid_to is not None and former.valid_to > latter.valid_from:
            reasons.append(f"{former.span} reaches into {latter.span}")
    if reasons:
        raise Refused("price versions collide", [*reasons, "a month has one version: change valid_from or valid_to"])
    changes = [reason for month in _changing_months(ordered) for reason in _impossible(ordered, month)]
    if changes:
        raise Refused("prices cannot change like this inside a month", [*changes, "begin with the first of a month"])


class _Span(NamedTuple):
    version: PriceVersion
    begin: date
    end: date


def _ordered(versions: Iterable[PriceVersion]) -> list[PriceVersion]:
    return sorted(versions, key=lambda version: (version.valid_from, version.version))


def _within(ordered: Sequence[PriceVersion], first: date, after: date) -> list[_Span]:
    """The spans of days that versions hold for in a month, in the order of time."""
    spans = []
    for version, later in zip_longest(ordered, ordered[1:]):
        end = version.valid_to or (later.valid_from if later else after)
        begin, end = max(version.valid_from, first), min(end, after)
        if begin < end:
            spans.append(_Span(version, begin, end))
    return spans


def _changing_months(ordered: Sequence[PriceVersion]) -> list[date]:
    begun = (version.valid_from for version in ordered if version.valid_from.day > 1)
    return [month for month, _ in groupby(day.replace(day=1) for day in begun)]


def _impossible(ordered: Sequence[PriceVersion], month: date) -> Iterator[str]:
    after = date(month.year + month.month // 12, month.month % 12 + 1, 1)
    versions = [span.version for span in _within(ordered, month, after)]
    for version in versions[1:]:
        if version.currency != versions[0].currency:
            currencies = f"{versions[0].version} is in {versions[0].currency}, {version.version} in {version.currency}"
            yield f"{currencies}: amounts of two currencies are never added"
    seen: dict[tuple[str, str, str], tuple[PriceVersion, Price]] = {}
    for version in versions:
        for price in version.prices:
            key = (price.platform, price.resource_type, price.metric)
            former, before = seen.setdefault(key, (version, price))
            for fault in _contradictions(before, price):
                yield f"{'.'.join(key)} {fault} between {former.version} and {version.version}"
            if price.terms and price.terms.tiers:
                seen[key] = version, price


def _contradictions(before: Price, after: Price) -> Iterator[str]:
    """What two prices of one metric cannot differ in, if one adds up to the other."""
    if before.formula != after.formula:
        yield f"turns from {PRICE_KEYS[before.formula]} to {PRICE_KEYS[after.formula]}"
    tiers = [price.terms.tiers for price in (before, after) if price.terms and price.terms.tiers]
    if len(tiers) > 1 and tiers[0].per != tiers[1].per:
        yield f"turns from tiers per {tiers[0].per} to tiers per {tiers[1].per}"
