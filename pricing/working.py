"""How an amount came about, to check by hand: the factors, their exact product, and the one rounding (rule 23)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact

from pricing.model import Formula
from pricing.money import MICROSECONDS_PER_HOUR, Number, exact_product, plain, round_amount, round_ratio

EXACT = Context(prec=400, traps=[Inexact])  # raises where it would have to round
ROUNDED = "rounded once, half up (away from zero), to 2 decimals"


@dataclass(frozen=True, slots=True)
class Working:
    """One amount, worked out: ``numerator`` is exact; it is divided and rounded once.

    ``lines`` tell it to a person, the rounding last. ``factors`` are those whose product it is; none if its price has
    terms: terms_working.py.
    """

    formula: Formula
    factors: Mapping[str, Number]
    numerator: Decimal
    divisor: int
    quotient: Decimal  # to 12 decimals, for reading
    amount: Decimal
    lines: tuple[str, ...]


def work_out(
    formula: Formula, length_us: int, quantity: Number, price: Number, state_modifier: Number, type_modifier: Number
) -> Working:
    """Work an amount out anew; of a reversal, from its negated quantity."""
    factors: dict[str, Number] = {"quantity": quantity, "price": price}
    if formula is Formula.TIME_GAUGE:
        modifiers = {"state modifier": state_modifier, "type modifier": type_modifier}
        factors = {"microseconds": length_us, **factors, **modifiers}
    over, under = exact_product(*factors.values())
    divisor = MICROSECONDS_PER_HOUR if formula is Formula.TIME_GAUGE else 1
    numerator = EXACT.divide(Decimal(over), Decimal(under))
    quotient, amount = round_ratio(over, under * divisor, 12), round_amount(over, under * divisor)
    divided = f" / {divisor}" if divisor != 1 else ""
    words, numbers = " x ".join(factors), " x ".join(_text(factor) for factor in factors.values())
    lines = (
        words + (" / microseconds of an hour" if divided else ""),
        f"{numbers} = {_text(numerator)}{divided} = {quotient:f}",
        f"{amount:f}: {ROUNDED}",
    )
    return Working(formula, factors, numerator, divisor, quotient, amount, lines)


def _text(number: Number) -> str:
    return f"{plain(number):f}"
