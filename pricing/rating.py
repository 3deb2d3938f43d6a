"""The rating of one usage record in plain Python (rules 23, 26 and 27): the reference for what dbt does to millions.

It needs no database: a price version, a record, and what the registry says of the resource type.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from pricing.model import EVERYTHING, Formula, ModifierKind, Price, PriceVersion
from pricing.money import Number, counter_amount, time_gauge_amount
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
    """Rate one usage record.

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
            rates.append(_rate(price, length_us, usage[price.metric], modifiers, version.currency))
        elif price.formula is Formula.TIME_GAUGE:
            findings.append(RatingFinding("missing_gauge", price.metric))
    findings += _unpriced(version, kind, usage, descriptive)
    return Rating(tuple(rates), tuple(findings))


def is_quantity(value: Any) -> bool:
    """Whether a value of usage measures something; texts and booleans are attributes."""
    return isinstance(value, int | Decimal) and not isinstance(value, bool)


def _rate(price: Price, length_us: int, quantity: Number, modifiers: tuple[Decimal, ...], currency: str) -> Rate:
    if price.formula is Formula.COUNTER:
        state, kind = FULL_PRICE, FULL_PRICE
        amount, exact = counter_amount(quantity, price.price)
    else:
        state, kind = modifiers
        amount, exact = time_gauge_amount(length_us, quantity, price.price, state, kind)
    return Rate(price.metric, quantity, price.price, state, kind, amount, exact, currency)


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
