"""How an amount came about, to check by hand: the factors, their exact product, and the one rounding (rule 23)."""

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Context, Decimal, Inexact

from pricing.model import Formula
from pricing.money import MICROSECONDS_PER_HOUR, Number, exact_product, plain, round_amount, round_ratio

_EXACT = Context(prec=400, traps=[Inexact])


@dataclass(frozen=True, slots=True)
class Working:
    """One amount, worked out: ``numerator`` is the exact product of the factors, which is divided and rounded once."""

    formula: Formula
    factors: Mapping[str, Number]
    numerator: Decimal
    divisor: int
    quotient: Decimal  # to 12 decimals, for reading
    amount: Decimal

    @property
    def lines(self) -> tuple[str, str, str]:
        """The formula in words, in numbers, and its rounding."""
        words, numbers = " x ".join(self.factors), " x ".join(_text(factor) for factor in self.factors.values())
        divided = f" / {self.divisor}" if self.divisor != 1 else ""
        return (
            words + (" / microseconds of an hour" if divided else ""),
            f"{numbers} = {_text(self.numerator)}{divided} = {self.quotient:f}",
            f"{self.amount:f}: rounded once, half up (away from zero), to 2 decimals",
        )


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
    return Working(
        formula,
        factors,
        _EXACT.divide(Decimal(over), Decimal(under)),
        divisor,
        round_ratio(over, under * divisor, 12),
        round_amount(over, under * divisor),
    )


def _text(number: Number) -> str:
    return f"{plain(number):f}"
