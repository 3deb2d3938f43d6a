"""The one door for money: exact products of decimals, rounded once (rules 23 and 25). Binary floats never pass it.

Amounts have two decimals: a currency whose minor unit is another one is refused. They are rounded half up, away from
zero, by integer division of the exact numerator: a quotient that has been rounded before would turn 0.00499999... into
a cent.
"""

import re
from collections.abc import Iterable
from decimal import Context, Decimal, Inexact, InvalidOperation
from fractions import Fraction

from tally.domain.errors import InvalidInput

AMOUNT_DECIMALS = 2
EXACT_DECIMALS = 12
HOURS_DECIMALS = 6
MICROSECONDS_PER_HOUR = 3_600_000_000

Number = Decimal | int

# Adds amounts of any size, and raises where it would have to round.
_EXACT = Context(prec=100, traps=[Inexact, InvalidOperation])
_ZERO = Decimal("0.00")
_CURRENCY = re.compile(r"[A-Z]{3}", re.ASCII)
# Decimals of the minor unit by ISO 4217, where they are not two.
_MINOR_UNITS = {
    "BIF": 0, "CLP": 0, "DJF": 0, "GNF": 0, "ISK": 0, "JPY": 0, "KMF": 0, "KRW": 0, "PYG": 0, "RWF": 0, "UGX": 0,
    "UYI": 0, "VND": 0, "VUV": 0, "XAF": 0, "XOF": 0, "XPF": 0,
    "BHD": 3, "IQD": 3, "JOD": 3, "KWD": 3, "LYD": 3, "OMR": 3, "TND": 3,
    "CLF": 4, "UYW": 4,
}


def time_gauge_amount(
    length_us: int, quantity: Number, price: Number, state_modifier: Number = 1, type_modifier: Number = 1
) -> tuple[Decimal, Decimal]:
    """Rate a gauge over time: hours x quantity x price per unit and hour x modifiers.

    Args:
        length_us: exact length in microseconds.
        quantity: of the gauge, e.g. 4 vcpus.
        price: per unit and hour.
        state_modifier: of the price version, 1 if it lists none.
        type_modifier: likewise.

    Returns:
        (amount rounded to 2 decimals, amount rounded to 12 decimals).
    """
    numerator, denominator = exact_product(length_us, quantity, price, state_modifier, type_modifier)
    return _amounts(numerator, denominator * MICROSECONDS_PER_HOUR)


def counter_amount(quantity: Number, price: Number) -> tuple[Decimal, Decimal]:
    """Rate a counter: quantity x price per unit; (amount to 2 decimals, amount to 12 decimals)."""
    return _amounts(*exact_product(quantity, price))


def exact_product(*factors: Number) -> tuple[int, int]:
    """Multiply without rounding; returns the numerator and the positive denominator."""
    numerator, denominator = 1, 1
    for factor in factors:
        over, under = checked(factor).as_integer_ratio()
        numerator, denominator = numerator * over, denominator * under
    return numerator, denominator


def round_amount(numerator: int, denominator: int) -> Decimal:
    """Round a ratio of integers half up, away from zero, to an amount of 2 decimals."""
    return round_ratio(numerator, denominator, AMOUNT_DECIMALS)


def round_ratio(numerator: int, denominator: int, decimals: int) -> Decimal:
    """Round a ratio of integers half up, away from zero; the result has exactly so many decimals.

    Raises:
        TypeError: for anything but integers.
    """
    for part in (numerator, denominator):
        if not isinstance(part, int):
            raise TypeError(f"{part!r} is a {type(part).__name__}; a ratio is two integers")
    size = 2 * abs(numerator) * 10**decimals
    under = 2 * abs(denominator)
    units = (size + abs(denominator)) // under
    return _of_units(-units if (numerator < 0) != (denominator < 0) else units, decimals)


def hours(length_us: int) -> Decimal:
    """Return a length in hours, for reading: whole if whole, else half up to 6 decimals without trailing zeros."""
    return plain(round_ratio(length_us, MICROSECONDS_PER_HOUR, HOURS_DECIMALS))


def total(amounts: Iterable[Decimal]) -> Decimal:
    """Add rounded amounts exactly; the total of none is 0.00.

    Raises:
        InvalidInput: if an amount has more than 2 decimals: totals are sums of what is shown (rule 23).
    """
    result = _ZERO
    for amount in amounts:
        try:
            result = _EXACT.add(result, _EXACT.quantize(checked(amount), _ZERO))
        except (Inexact, InvalidOperation):
            raise InvalidInput(f"{amount} is not an amount of {AMOUNT_DECIMALS} decimals; round it first") from None
    return result


def plain(number: Number) -> Decimal:
    """Return the same value in its shortest form without an exponent: 18.0 is 18, 1E+2 is 100."""
    decimal = checked(number)
    text = f"{decimal:f}"
    return Decimal(text.rstrip("0").rstrip(".") if "." in text else text) if decimal else Decimal(0)


def checked(number: Number) -> Decimal:
    """Let an exact number through the door.

    Raises:
        TypeError: for a binary float, a bool or a text.
        InvalidInput: for NaN and infinity.
    """
    if type(number) is not Decimal and type(number) is not int:
        raise TypeError(f"{number!r} is a {type(number).__name__}; money is computed from int and Decimal only")
    decimal = Decimal(number)
    if not decimal.is_finite():
        raise InvalidInput(f"{number} is not a number that money can be computed from")
    return decimal


def check_currency(code: str) -> str:
    """Return an ISO 4217 code such as EUR.

    Raises:
        InvalidInput: if it does not look like one, or its amounts do not have two decimals.
    """
    if not _CURRENCY.fullmatch(code):
        raise InvalidInput(f"{code[:20]!r} is not a currency; write three capitals such as EUR")
    decimals = minor_unit(code)
    if decimals != AMOUNT_DECIMALS:
        raise InvalidInput(f"amounts in {code} have {decimals} decimals and not {AMOUNT_DECIMALS}: price in another")
    return code


def minor_unit(code: str) -> int:
    """How many decimals amounts of a currency have by ISO 4217: 2 of EUR, 0 of JPY, 3 of KWD."""
    return _MINOR_UNITS.get(code, AMOUNT_DECIMALS)


def amounts(exact: Fraction) -> tuple[Decimal, Decimal]:
    """An exact amount rounded once to 2 decimals, and once to 12."""
    return _amounts(*exact.as_integer_ratio())


def _amounts(numerator: int, denominator: int) -> tuple[Decimal, Decimal]:
    return round_amount(numerator, denominator), round_ratio(numerator, denominator, EXACT_DECIMALS)


def _of_units(units: int, decimals: int) -> Decimal:
    """Shift the decimal point by text: arithmetic would round beyond the 28 digits of the context."""
    return Decimal(f"{units}E-{decimals}")
