"""How an amount came about whose price has terms, to check by hand: time, tiers, modifiers and cap, one line a step.

Numbers between the steps are shown to 12 decimals; the numerator in the end is exact.
"""

from collections.abc import Iterator
from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

from pricing.model import PRICE_KEYS, Formula, Price
from pricing.money import MICROSECONDS_PER_HOUR, Number, plain, round_amount, round_ratio
from pricing.rating import exact, exact_amount, unit_scale, units_of
from pricing.terms import Basis, TierMode, Tiers
from pricing.working import EXACT, ROUNDED, Working


def work_out_terms(
    price: Price, basis: Basis, length_us: int, quantity: Number, modifiers: tuple[Number, Number]
) -> Working:
    """Work an amount out anew from what it went by; of a reversal, the one that it takes back, negated."""
    sign = -1 if quantity < 0 else 1
    size = sign * quantity
    amount = exact_amount(price, length_us, size, modifiers, basis)
    lines = [*_lines(price, basis, length_us, size, modifiers)]
    if sign < 0:
        lines.append("negated: it takes back the record that it reverses")
    numerator = sign * amount * MICROSECONDS_PER_HOUR
    rounded = round_amount(sign * amount.numerator, amount.denominator)
    exactly = f"{plain(_decimal(numerator)):f} / {MICROSECONDS_PER_HOUR}"
    return Working(
        price.formula,
        {},
        _decimal(numerator),
        MICROSECONDS_PER_HOUR,
        round_ratio(sign * amount.numerator, amount.denominator, 12),
        rounded,
        (*lines, f"exactly {exactly}", f"{rounded:f}: {ROUNDED}"),
    )


def _lines(
    price: Price, basis: Basis, length_us: int, quantity: Number, modifiers: tuple[Number, Number]
) -> Iterator[str]:
    assert price.terms is not None
    terms, gauge = price.terms, price.formula is Formula.TIME_GAUGE
    if basis.microseconds is not None:
        added = basis.microseconds - length_us
        yield f"time: {length_us} microseconds" + (f", and {added} to what its life is charged for" if added else "")
    units = units_of(price.formula, length_us, quantity, basis)
    if gauge:
        yield f"units: {_text(units / exact(quantity)) if quantity else 0} hours x {_number(quantity)} = {_text(units)}"
    else:
        yield f"units: {_number(quantity)}"
    if terms.tiers is None:
        yield f"price: {_text(units)} x {_number(price.price)} = {_text(units * exact(price.price))}"
    else:
        yield from _tiers(terms.tiers, price, basis, units)
    if gauge:
        state, kind = modifiers
        yield f"modifiers: state {_number(state)}, type {_number(kind)}"
    if terms.monthly_cap is not None:
        uncapped = replace(price, terms=replace(terms, monthly_cap=None))
        wanted = exact_amount(uncapped, length_us, quantity, modifiers, basis)
        before = exact(basis.charged or 0) / MICROSECONDS_PER_HOUR
        yield (
            f"cap: at most {_number(terms.monthly_cap)} of the resource in the month; {_text(before)} came before, "
            f"so that of {_text(wanted)} it is charged {_text(terms.capped(before, wanted))}"
        )


def _tiers(tiers: Tiers, price: Price, basis: Basis, units: Fraction) -> Iterator[str]:
    scale = unit_scale(price.formula)
    before, total = exact(basis.before or 0) / scale, exact(basis.total or 0) / scale
    if tiers.mode is TierMode.VOLUME:
        tier = tiers.at(total)
        yield (
            f"tier: all {_text(total)} of the {tiers.per} in the month at {_number(tier.price)}: "
            f"{_text(units)} x {_number(tier.price)} = {_text(units * exact(tier.price))}"
        )
        return
    yield f"tiers: after {_text(before)} of the {tiers.per} in the month, by {PRICE_KEYS[price.formula]}"
    for begin, end, tier_price in tiers.spans():
        within = min(before + units, end if end is not None else before + units) - max(before, begin)
        if within > 0:
            reach = f"above {_text(begin)}" + ("" if end is None else f", up to {_text(end)}")
            yield f"  {reach}: {_text(within)} x {_text(tier_price)} = {_text(within * tier_price)}"


def _number(number: Number) -> str:
    return f"{plain(number):f}"


def _text(number: Fraction) -> str:
    return _number(round_ratio(number.numerator, number.denominator, 12))


def _decimal(number: Fraction) -> Decimal:
    """A fraction that is a finite decimal: what is multiplied by the microseconds of an hour is."""
    return EXACT.divide(Decimal(number.numerator), Decimal(number.denominator))
