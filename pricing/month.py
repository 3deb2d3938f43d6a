"""The rating of all usage of a month, where a price has terms that records share: the reference for SQL (terms.py).

A life is charged for its least time, and up to a whole step, once: what is added extends its last record, whose owner,
size and state pay for it. Records of a group follow each other by beginning, then by resource; each is charged what
it adds to the cost of those before it. A cap of a resource holds over all its owners.

Where prices change inside the month, the pieces of a record are rated as records of their own, each by its version:
they share lives, tiers and caps with all others of the month.
"""

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Context, Decimal, Inexact
from fractions import Fraction
from typing import Any

from pricing.model import Formula, Price, PriceVersion
from pricing.money import MICROSECONDS_PER_HOUR, Number, checked
from pricing.rating import Rate, Rating, exact_amount, rate, rate_of
from pricing.terms import Basis, Group, Terms

_EXACT = Context(prec=400, traps=[Inexact])


@dataclass(frozen=True, slots=True)
class MonthRecord:
    """A usage record as rating sees it; its ``length_us`` is exact."""

    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    project_id: str
    lifetime_no: int
    from_ts: datetime
    length_us: int
    state: str
    usage: Mapping[str, Any]


Priced = tuple[PriceVersion, MonthRecord]  # a record, or the piece of one, and what prices it
Metric = tuple[str, str, str]  # (platform, resource type, metric)


def rate_month(version: PriceVersion, records: Sequence[MonthRecord]) -> list[Rating]:
    """Rate the records of a month, each with all that share a tier or a cap with it; in the order given."""
    return rate_pieces([(version, record) for record in records])


def rate_pieces(pieces: Sequence[Priced]) -> list[Rating]:
    """Rate the records of a month, cut where prices change, each piece by its version; in the order given."""
    ratings = [_by_itself(*piece) for piece in pieces]
    for metric in _termed({id(version): version for version, _ in pieces}.values()):
        charges = list(_charges(metric, pieces, ratings))
        _settle(charges)
        settled = {id(charge.record): charge.rate for charge in charges}
        ratings = [
            replace(rating, rates=tuple(_settled(one, metric[2], settled.get(id(record))) for one in rating.rates))
            for (_, record), rating in zip(pieces, ratings, strict=True)
        ]
    return ratings


class _Charge:
    """One dimension of one record on the way to its amount."""

    def __init__(self, price: Price, record: MonthRecord, rated: Rate) -> None:
        self.price, self.record, self.rate = price, record, rated
        self.billed_us = record.length_us

    @property
    def units(self) -> Decimal:
        """What the group adds up: unit microseconds, or units."""
        quantity = checked(self.rate.quantity)
        return quantity if self.price.formula is Formula.COUNTER else _EXACT.multiply(quantity, Decimal(self.billed_us))

    @property
    def terms(self) -> Terms:
        return self.price.terms or Terms()

    def rated_on(self, basis: Basis) -> None:
        modifiers = self.rate.state_modifier, self.rate.type_modifier
        length_us, currency = self.record.length_us, self.rate.currency
        self.rate = rate_of(self.price, length_us, self.rate.quantity, modifiers, currency, basis)


def _settle(charges: list[_Charge]) -> None:
    charges.sort(key=lambda charge: _place(charge.record))
    for life in _grouped(charges, lambda record: (*_resource(record), record.lifetime_no)):
        lived_us = sum(charge.record.length_us for charge in life)
        life[-1].billed_us += life[-1].terms.billed_us(lived_us) - lived_us
    bases = {id(charge): Basis(charge.billed_us if charge.terms.extends else None) for charge in charges}
    # Whose units count is said by whichever version has tiers; those that have count all of the month.
    tiers = [charge.terms.tiers for charge in charges if charge.terms.tiers is not None]
    for group in _grouped(charges, _member(tiers[0].per)) if tiers else ():
        befores = list(_running(charge.units for charge in group))
        for charge, before in zip(group, befores, strict=False):
            if charge.terms.tiers is not None:
                bases[id(charge)] = replace(bases[id(charge)], before=before, total=befores[-1])
    for resource in _grouped(charges, _resource):
        charged = Fraction(0)
        for charge in resource:
            basis = bases[id(charge)]
            if charge.terms.monthly_cap is not None:
                basis = replace(basis, charged=_decimal(charged * MICROSECONDS_PER_HOUR))
            charged += _uncapped(charge, basis)
            charge.rated_on(basis)


def _uncapped(charge: _Charge, basis: Basis) -> Fraction:
    price = replace(charge.price, terms=replace(charge.terms, monthly_cap=None))
    modifiers = charge.rate.state_modifier, charge.rate.type_modifier
    return exact_amount(price, charge.record.length_us, charge.rate.quantity, modifiers, basis)


def _by_itself(version: PriceVersion, record: MonthRecord) -> Rating:
    return rate(
        version,
        platform=record.platform,
        resource_type=record.resource_type,
        state=record.state,
        length_us=record.length_us,
        usage=record.usage,
    )


def _termed(versions: Iterable[PriceVersion]) -> list[Metric]:
    """What some version has terms for, in the order of the prices."""
    termed = [price for version in versions for price in version.prices if price.terms is not None]
    return list(dict.fromkeys((price.platform, price.resource_type, price.metric) for price in termed))


def _charges(metric: Metric, pieces: Sequence[Priced], ratings: Sequence[Rating]) -> Iterator[_Charge]:
    *kind, name = metric
    for (version, record), rating in zip(pieces, ratings, strict=True):
        if [record.platform, record.resource_type] == kind:
            prices = {price.metric: price for price in version.prices_of(record.platform, record.resource_type)}
            yield from (_Charge(prices[name], record, one) for one in rating.rates if one.dimension == name)


def _settled(one: Rate, metric: str, settled: Rate | None) -> Rate:
    return settled if settled is not None and one.dimension == metric else one


def _place(record: MonthRecord) -> tuple[datetime, bytes, bytes, bytes]:
    cloud, resource_type, resource_id = (part.encode() for part in _resource(record))
    return (record.from_ts, cloud, resource_type, resource_id)


def _resource(record: MonthRecord) -> tuple[str, str, str]:
    return (record.cloud, record.resource_type, record.resource_id)


def _member(per: Group) -> Callable[[MonthRecord], Hashable]:
    return _resource if per is Group.RESOURCE else _project


def _project(record: MonthRecord) -> tuple[str, str]:
    return (record.cloud, record.project_id)


def _grouped(charges: Iterable[_Charge], key: Callable[[MonthRecord], Hashable]) -> list[list[_Charge]]:
    groups: defaultdict[Hashable, list[_Charge]] = defaultdict(list)
    for charge in charges:
        groups[key(charge.record)].append(charge)
    return list(groups.values())


def _running(units: Iterable[Decimal]) -> Iterator[Decimal]:
    """The sum before each, and in the end of all."""
    total = Decimal(0)
    for number in units:
        yield total
        total = _EXACT.add(total, number)
    yield total


def _decimal(number: Fraction) -> Number:
    """A fraction of which a power of ten is the denominator: sums of products of decimals are."""
    return _EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
