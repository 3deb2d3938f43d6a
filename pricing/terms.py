"""What a price may say beyond a price: tiers, what is free, the least time and its steps, the most of a month.

Here is what such terms do to numbers, exactly: the reference that the SQL of rating is tested against. Where they are
written is price_file.py's business; which records share a tier or a cap, month.py's.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import StrEnum
from fractions import Fraction
from itertools import pairwise
from typing import Any

SECOND_US = 1_000_000


class TierMode(StrEnum):
    """Which part of the units of a month a tier prices."""

    GRADUATED = "graduated"   # each tier what lies within it
    VOLUME = "volume"         # the tier that the total reaches prices all of it


class Group(StrEnum):
    """Whose units of a month are added up, of one metric of one resource type."""

    RESOURCE = "resource"
    PROJECT = "project"


@dataclass(frozen=True, slots=True)
class Tier:
    """A price for units up to a bound, which is included; None: without a bound. Units are those of the price."""

    up_to: Decimal | None
    price: Decimal


@dataclass(frozen=True, slots=True)
class Tiers:
    """Tiers in the order of their bounds; only the last one has none."""

    mode: TierMode
    per: Group
    steps: tuple[Tier, ...]

    def spans(self) -> Iterator[tuple[Fraction, Fraction | None, Fraction]]:
        """The tiers as (from, up to, price)."""
        begin = Fraction(0)
        for tier in self.steps:
            end = None if tier.up_to is None else Fraction(tier.up_to)
            yield begin, end, Fraction(tier.price)
            begin = end if end is not None else begin

    def cost_up_to(self, units: Fraction) -> Fraction:
        """What the first units of a month cost together, graduated."""
        return sum(
            (price * (units - begin if end is None else min(units, end) - begin)
             for begin, end, price in self.spans() if units > begin),
            Fraction(0),
        )

    def cost(self, before: Fraction, units: Fraction, total: Fraction) -> Fraction:
        """What units cost that come after those ``before`` in a month of ``total``."""
        if self.mode is TierMode.VOLUME:
            return units * Fraction(self.at(total).price)
        return self.cost_up_to(before + units) - self.cost_up_to(before)

    def at(self, units: Fraction) -> Tier:
        """The tier that a total reaches; a bound is within the tier that it ends."""
        return next(tier for tier in self.steps if tier.up_to is None or units <= tier.up_to)

    def after(self, units: Fraction) -> Tier:
        """The tier of whatever comes after so many units."""
        return next(tier for tier in self.steps if tier.up_to is None or units < tier.up_to)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a price says beyond a price; None is what it does not say."""

    tiers: Tiers | None = None
    minimum_us: int | None = None      # the least that each life is charged in a month, in microseconds
    increment_us: int | None = None    # each life is charged for as many of these as it has begun
    monthly_cap: Decimal | None = None  # the most of a resource in a month, in the currency of the version

    @property
    def extends(self) -> bool:
        """Whether a life may be charged for more time than it has."""
        return self.minimum_us is not None or self.increment_us is not None

    def content(self, price_key: str) -> dict[str, Any]:
        """The terms in the form of a file; ``price_key`` is what the price of a tier is called there."""
        result: dict[str, Any] = {}
        if self.tiers is not None:
            result["tiers"] = {"mode": str(self.tiers.mode), "per": str(self.tiers.per), "steps": [
                ({} if tier.up_to is None else {"up_to": tier.up_to}) | {price_key: tier.price}
                for tier in self.tiers.steps
            ]}
        for key, length_us in (("minimum_duration", self.minimum_us), ("billing_increment", self.increment_us)):
            if length_us is not None:
                result[key] = f"{length_us // SECOND_US}s"
        if self.monthly_cap is not None:
            result["monthly_cap"] = self.monthly_cap
        return result

    def billed_us(self, lived_us: int) -> int:
        """The time that a life is charged for: at least the minimum, then up to a whole increment."""
        increment = self.increment_us or 1
        return -(-max(lived_us, self.minimum_us or 0) // increment) * increment

    def capped(self, before: Fraction, amount: Fraction) -> Fraction:
        """What of an amount is still charged after those before it, exact and not capped themselves."""
        if self.monthly_cap is None:
            return amount
        cap = Fraction(self.monthly_cap)
        return min(before + amount, cap) - min(before, cap)


@dataclass(frozen=True, slots=True)
class Basis:
    """What an amount goes by that other records decide; None is what its price has no terms for.

    Units are unit microseconds of a time gauge, units of a counter.
    """

    microseconds: int | None = None  # charged for, instead of the length of the record
    before: Decimal | int | None = None   # units of the group in the month that come first
    total: Decimal | int | None = None    # all units of the group in the month
    charged: Decimal | int | None = None  # exact costs of the resource in the month that come first, x 3.6e9


NO_BASIS = Basis()


def free(quantity: Decimal, per: Group, price: Decimal) -> Tiers:
    """The first units of a month free, the others at a price: two graduated tiers."""
    return Tiers(TierMode.GRADUATED, per, (Tier(quantity, Decimal(0)), Tier(None, price)))


def is_ordered(steps: Sequence[Tier]) -> bool:
    """Whether bounds rise from above zero, and the last tier alone has none."""
    bounds = [tier.up_to for tier in steps[:-1]]
    if not steps or steps[-1].up_to is not None or None in bounds:
        return False
    rising = [Decimal(0), *(bound for bound in bounds if bound is not None)]
    return all(low < high for low, high in pairwise(rising))
