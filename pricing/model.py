"""A price version: what is priced, how, and for which months (rules 24 to 27).

How a version is written in YAML is price_file.py's business; which of several holds when, validity.py's; where versions
are kept, tally.services.pricing's.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from functools import cached_property
from typing import Any, Literal

from pricing.terms import Group, Terms
from tally.domain.event import canonical_json

ModifierKind = Literal["state", "type"]

# In `unpriced`: the whole resource type.
EVERYTHING = "*"


class MidPeriod(StrEnum):
    """What a version does whose first day is not the first of a month."""

    PERIOD_START = "period_start"   # a month is rated by the prices of its first day
    SPLIT = "split"                 # each part of a month is rated by the prices of its days


class Formula(StrEnum):
    """How a price becomes a cost."""

    TIME_GAUGE = "time_gauge"   # hours x quantity x price x state modifier x type modifier
    COUNTER = "counter"         # quantity x price


# What the price of a formula is called in a version file.
PRICE_KEYS = {Formula.TIME_GAUGE: "price_per_unit_hour", Formula.COUNTER: "price_per_unit"}


@dataclass(frozen=True, slots=True)
class Price:
    """The price of one metric of a resource type: per unit and hour (time_gauge), or per unit (counter).

    With tiers, each of them has a price, and ``price`` is that of the last one.
    """

    platform: str
    resource_type: str
    metric: str
    formula: Formula
    price: Decimal
    terms: Terms | None = None  # None: each record costs what it says by itself


@dataclass(frozen=True, slots=True)
class Modifier:
    """What a state, or a value of usage.type, does to the time gauges of a resource type."""

    platform: str
    resource_type: str
    kind: ModifierKind
    value: str
    modifier: Decimal


@dataclass(frozen=True, slots=True)
class Unpriced:
    """A metric that is deliberately free, or the whole resource type (metric '*')."""

    platform: str
    resource_type: str
    metric: str


@dataclass(frozen=True)
class PriceVersion:
    """One version of the price list. It is never edited: what changes gets a version of its own."""

    version: str
    valid_from: date          # the first day it holds for; the first of a month, but where it splits months
    valid_to: date | None     # the first day it no longer does, likewise; None: until the next version
    currency: str
    prices: tuple[Price, ...]   # within a resource type in the order of the file, which is the order on bills
    modifiers: tuple[Modifier, ...] = ()
    unpriced: tuple[Unpriced, ...] = ()
    mid_period: MidPeriod = MidPeriod.PERIOD_START

    def prices_of(self, platform: str, resource_type: str) -> tuple[Price, ...]:
        """List the prices of a resource type in their order on bills."""
        return self._prices_by_type.get((platform, resource_type), ())

    def formulas(self, platform: str, resource_type: str) -> Mapping[str, Formula]:
        """Map the priced metrics of a resource type, in their order on bills, to their formulas."""
        return self._formulas_by_type.get((platform, resource_type), {})

    def has_table(self, platform: str, resource_type: str, kind: ModifierKind) -> bool:
        """Whether the version has a table of modifiers of that kind for a resource type."""
        return (platform, resource_type, kind) in self._tables

    def modifier(self, platform: str, resource_type: str, kind: ModifierKind, value: str) -> Decimal | None:
        """Return a listed modifier; None if it is not listed, which costs full price (rule 27)."""
        return self._modifiers.get((platform, resource_type, kind, value))

    def is_unpriced(self, platform: str, resource_type: str, metric: str) -> bool:
        """Whether a metric is free on purpose."""
        names = {(platform, resource_type, metric), (platform, resource_type, EVERYTHING)}
        return not names.isdisjoint(self._unpriced)

    @property
    def counts_projects(self) -> bool:
        """Whether a price adds up what the resources of a project use."""
        tiers = [price.terms.tiers for price in self.prices if price.terms]
        return any(one is not None and one.per is Group.PROJECT for one in tiers)

    @property
    def content(self) -> dict[str, Any]:
        """The version in the form of its file: texts, decimals, lists, objects. It reads back as the same version.

        The order of the dimensions of a resource type is content: bills show it. No other order is.
        """
        result: dict[str, Any] = {"version": self.version, "valid_from": day_text(self.valid_from)}
        if self.valid_to is not None:
            result["valid_to"] = day_text(self.valid_to)
        if self.mid_period is MidPeriod.SPLIT:
            result["mid_period"] = str(self.mid_period)
        pricing: dict[str, dict[str, Any]] = {}
        for price in self.prices:
            resource = pricing.setdefault(price.platform, {}).setdefault(price.resource_type, {"dimensions": []})
            resource["dimensions"].append(_dimension(price))
        for modifier in self.modifiers:
            resource = pricing[modifier.platform][modifier.resource_type]
            resource.setdefault(f"{modifier.kind}_modifiers", {})[modifier.value] = modifier.modifier
        unpriced: dict[str, dict[str, list[str]]] = {}
        for free in sorted(self.unpriced, key=lambda free: free.metric):
            unpriced.setdefault(free.platform, {}).setdefault(free.resource_type, []).append(free.metric)
        return {**result, "currency": self.currency, "pricing": pricing, "unpriced": unpriced}

    @property
    def content_hash(self) -> str:
        """One hash per content: comments, quotes, indentation, zeros at the end and the order of keys do not count."""
        return hashlib.sha256(canonical_json(self.content).encode()).hexdigest()

    @property
    def span(self) -> str:
        """The months it holds for, for a person; days where it splits a month."""
        begin = day_text(self.valid_from)
        if self.valid_to is None:
            return f"{self.version} (from {begin})"
        return f"{self.version} (from {begin} up to, not including, {day_text(self.valid_to)})"

    @cached_property
    def _prices_by_type(self) -> Mapping[tuple[str, str], tuple[Price, ...]]:
        result: dict[tuple[str, str], tuple[Price, ...]] = {}
        for price in self.prices:
            key = (price.platform, price.resource_type)
            result[key] = (*result.get(key, ()), price)
        return result

    @cached_property
    def _formulas_by_type(self) -> Mapping[tuple[str, str], Mapping[str, Formula]]:
        return {kind: {p.metric: p.formula for p in prices} for kind, prices in self._prices_by_type.items()}

    @cached_property
    def _modifiers(self) -> Mapping[tuple[str, str, str, str], Decimal]:
        return {(m.platform, m.resource_type, m.kind, m.value): m.modifier for m in self.modifiers}

    @cached_property
    def _tables(self) -> frozenset[tuple[str, str, str]]:
        return frozenset((m.platform, m.resource_type, m.kind) for m in self.modifiers)

    @cached_property
    def _unpriced(self) -> frozenset[tuple[str, str, str]]:
        return frozenset((free.platform, free.resource_type, free.metric) for free in self.unpriced)


def day_text(day: date) -> str:
    """Write a day of validity as a file does: 2026-03 for the first of a month, else 2026-03-16."""
    return f"{day:%Y-%m}" if day.day == 1 else f"{day:%Y-%m-%d}"


def _dimension(price: Price) -> dict[str, Any]:
    result: dict[str, Any] = {"metric": price.metric, "type": str(price.formula)}
    key, terms = PRICE_KEYS[price.formula], price.terms
    if terms is None or terms.tiers is None:
        result[key] = price.price
    return result | (terms.content(key) if terms else {})
