"""The rating of one usage record in plain Python (rules 23, 26 and 27): the reference for what dbt does to millions.

It needs no database: a price version, a record, and what the registry says of the resource type.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

from pricing.model import EVERYTHING, Formula, ModifierKind, Price, PriceVersion
from pricing.money import MICROSECONDS_PER_HOUR, Number, amounts, checked, counter_amount, time_gauge_amount
from pricing.terms import NO_BASIS, Basis, Terms, TierMode
from tally.domain.resource_type import RESERVED_METRICS

FULL_PRICE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Rate:
    """The cost of one dimension of one usage record: a row of ledger.rated_records."""

    dimension: str            # the usage metric that is paid for
    quantity: Number          # of the metric, as metered
    price: Decimal            # per unit and hour, or per unit
    state_modifier: Decimal   # 1 for counters
    type_modifier: Decimal    # likewise
    amount: Decimal           # rounded to 2 decimals
    amount_exact: Decimal     # to 12 decimals, for reading and drift
    currency: str
    basis: Basis = NO_BASIS   # what the amount goes by beyond the record, if the price has terms


@dataclass(frozen=True, slots=True)
class RatingFinding:
    """What a record leaves open: it is rated as said, and somebody should look."""

    kind: Literal["missing_gauge", "unpriced", "unlisted_state", "unlisted_type"]
    subject: str   # the metric, the state or the type; '*' is the whole resource type


@dataclass(frozen=True, slots=True)
class Rating:
    """The rates of one record in the order of the prices, and what was found on the way."""

    rates: tuple[Rate, ...]
    findings: tuple[RatingFinding, ...]


def rate(
    version: PriceVersion,
    *,
    platform: str,
    resource_type: str,
    state: str,
    length_us: int,
    usage: Mapping[str, Any],
    normal_states: Collection[str] = (),
    descriptive: Collection[str] = (),
) -> Rating:
    """Rate one usage record, as if it were the only one of the month: month.py rates all of a month.

    A gauge that is missing is left out and reported; a counter that is missing is zero. A state or type that a table
    lacks costs full price and is reported, unless the registry declares the state normal.
    """
    kind = (platform, resource_type)
    listed = (version.modifier(*kind, "state", state), version.modifier(*kind, "type", _type(usage)))
    modifiers = tuple(FULL_PRICE if modifier is None else modifier for modifier in listed)
    findings = list(_unlisted(version, kind, "state", state, normal_states))
    findings += _unlisted(version, kind, "type", _type(usage), ())
    rates = []
    for price in version.prices_of(*kind):
        if is_quantity(usage.get(price.metric)):
            quantity = usage[price.metric]
            basis = alone(price, length_us, quantity)
            rates.append(rate_of(price, length_us, quantity, modifiers, version.currency, basis))
        elif price.formula is Formula.TIME_GAUGE:
            findings.append(RatingFinding("missing_gauge", price.metric))
    findings += _unpriced(version, kind, usage, descriptive)
    return Rating(tuple(rates), tuple(findings))


def is_quantity(value: Any) -> bool:
    """Whether a value of usage measures something; texts and booleans are attributes."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def rate_of(
    price: Price,
    length_us: int,
    quantity: Number,
    modifiers: tuple[Decimal, ...],
    currency: str,
    basis: Basis = NO_BASIS,
) -> Rate:
    """Rate one dimension; ``modifiers`` are those of state and type, which a counter does not have."""
    state, kind = modifiers if price.formula is Formula.TIME_GAUGE else (FULL_PRICE, FULL_PRICE)
    if price.terms is not None:
        found = amounts(exact_amount(price, length_us, quantity, (state, kind), basis))
    elif price.formula is Formula.TIME_GAUGE:
        found = time_gauge_amount(length_us, quantity, price.price, state, kind)
    else:
        found = counter_amount(quantity, price.price)
    return Rate(price.metric, quantity, listed_price(price, basis), state, kind, *found, currency, basis)


def exact_amount(
    price: Price, length_us: int, quantity: Number, modifiers: tuple[Number, ...], basis: Basis = NO_BASIS
) -> Fraction:
    """The exact amount: of the terms of the price, those that its basis tells of hold."""
    terms = price.terms or Terms()
    scale = unit_scale(price.formula)
    amount = units_of(price.formula, length_us, quantity, basis)
    if terms.tiers is None:
        amount *= exact(price.price)
    else:
        before, total = exact(basis.before or 0) / scale, exact(basis.total or 0) / scale
        amount = terms.tiers.cost(before, amount, total)
    for modifier in modifiers:
        amount *= exact(modifier)
    return terms.capped(exact(basis.charged or 0) / MICROSECONDS_PER_HOUR, amount)


def units_of(formula: Formula, length_us: int, quantity: Number, basis: Basis = NO_BASIS) -> Fraction:
    """What the price of a formula counts: unit hours, or units."""
    if formula is Formula.COUNTER:
        return exact(quantity)
    charged_us = length_us if basis.microseconds is None else basis.microseconds
    return charged_us * exact(quantity) / MICROSECONDS_PER_HOUR


def unit_scale(formula: Formula) -> int:
    """How many units of a basis make one that the price of a formula counts."""
    return MICROSECONDS_PER_HOUR if formula is Formula.TIME_GAUGE else 1


def listed_price(price: Price, basis: Basis) -> Decimal:
    """The price that holds for a record: of its tier, or of the one it begins in."""
    tiers = price.terms.tiers if price.terms else None
    if tiers is None:
        return price.price
    scale = unit_scale(price.formula)
    if tiers.mode is TierMode.VOLUME:
        return tiers.at(exact(basis.total or 0) / scale).price
    return tiers.after(exact(basis.before or 0) / scale).price


def alone(price: Price, length_us: int, quantity: Number) -> Basis:
    """The basis of a record that is the only one of its month."""
    terms = price.terms
    if terms is None:
        return NO_BASIS
    charged_us = terms.billed_us(length_us)
    units = quantity if price.formula is Formula.COUNTER else charged_us * checked(quantity)
    tiered = terms.tiers is not None
    return Basis(
        charged_us if terms.extends else None,
        0 if tiered else None,
        units if tiered else None,
        0 if terms.monthly_cap is not None else None,
    )


def exact(number: Number) -> Fraction:
    """An exact number as a fraction; a binary float is refused at the door of money."""
    return Fraction(checked(number))


def _unlisted(
    version: PriceVersion, kind: tuple[str, str], table: ModifierKind, value: str, normal: Collection[str]
) -> Iterator[RatingFinding]:
    unlisted = version.has_table(*kind, table) and version.modifier(*kind, table, value) is None
    if unlisted and value not in normal:
        yield RatingFinding("unlisted_state" if table == "state" else "unlisted_type", value)


def _unpriced(
    version: PriceVersion, kind: tuple[str, str], usage: Mapping[str, Any], descriptive: Collection[str]
) -> Iterator[RatingFinding]:
    prices = version.prices_of(*kind)
    if not prices and not version.is_unpriced(*kind, EVERYTHING):
        yield RatingFinding("unpriced", EVERYTHING)
        return
    known = {price.metric for price in prices} | RESERVED_METRICS | set(descriptive)
    for metric in sorted(usage):
        if is_quantity(usage[metric]) and metric not in known and not version.is_unpriced(*kind, metric):
            yield RatingFinding("unpriced", metric)


def _type(usage: Mapping[str, Any]) -> str:
    value = usage.get("type", "")
    return value if isinstance(value, str) else ""
