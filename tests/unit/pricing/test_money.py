"""Money: exact products, rounded once, half up and away from zero (rule 23); floats never pass the door."""

from decimal import Decimal
from fractions import Fraction
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.money import (
    check_currency,
    counter_amount,
    exact_product,
    hours,
    plain,
    round_amount,
    round_ratio,
    time_gauge_amount,
    total,
)
from tally.domain.errors import InvalidInput

HOUR = 3_600_000_000
DECIMALS = st.decimals(min_value=-(10**12), max_value=10**12, allow_nan=False, allow_infinity=False, places=6)
MODIFIERS = st.decimals(min_value=0, max_value=10, allow_nan=False, allow_infinity=False, places=3)
LENGTHS = st.integers(min_value=0, max_value=744 * HOUR)


def half_up(value: Fraction, decimals: int) -> Fraction:
    """The rule in its own words: the nearest, and of two equally near the one farther from zero."""
    scaled = abs(value) * 10**decimals
    units = floor(scaled) + (1 if scaled - floor(scaled) >= Fraction(1, 2) else 0)
    return Fraction(units if value >= 0 else -units, 10**decimals)


@given(LENGTHS, DECIMALS, DECIMALS, MODIFIERS, MODIFIERS)
def test_a_time_gauge_is_the_exact_product_rounded_once(
    length_us: int, quantity: Decimal, price: Decimal, state: Decimal, kind: Decimal
) -> None:
    exact = Fraction(length_us, HOUR) * Fraction(quantity) * Fraction(price) * Fraction(state) * Fraction(kind)
    amount, amount_exact = time_gauge_amount(length_us, quantity, price, state, kind)
    assert Fraction(amount) == half_up(exact, 2)
    assert Fraction(amount_exact) == half_up(exact, 12)
    assert (amount.as_tuple().exponent, amount_exact.as_tuple().exponent) == (-2, -12)


@given(DECIMALS, DECIMALS)
def test_a_counter_is_quantity_times_price_rounded_once(quantity: Decimal, price: Decimal) -> None:
    amount, amount_exact = counter_amount(quantity, price)
    assert Fraction(amount) == half_up(Fraction(quantity) * Fraction(price), 2)
    assert Fraction(amount_exact) == half_up(Fraction(quantity) * Fraction(price), 12)


@given(st.integers(-(10**40), 10**40), st.integers(1, 10**20))
def test_the_negation_of_a_value_rounds_to_the_negation_of_its_amount(numerator: int, denominator: int) -> None:
    """Rule 20: a reversal is the exact negation of what it reverses."""
    assert round_amount(-numerator, denominator) == round_amount(numerator, denominator).copy_negate()
    assert round_amount(numerator, -denominator) == round_amount(-numerator, denominator)


@pytest.mark.parametrize(
    ("numerator", "denominator", "amount"),
    [
        (5, 1000, "0.01"),
        (-5, 1000, "-0.01"),
        (15, 1000, "0.02"),
        (25, 1000, "0.03"),       # half even would say 0.02
        (4999, 1_000_000, "0.00"),
        (-4999, 1_000_000, "0.00"),
        (2025, 1000, "2.03"),     # the seed's 22.5 GB x 0.09
    ],
)
def test_half_a_cent_goes_away_from_zero(numerator: int, denominator: int, amount: str) -> None:
    assert str(round_amount(numerator, denominator)) == amount


def test_what_is_just_below_half_a_cent_is_not_rounded_twice() -> None:
    """Rounded to 12 decimals first, this would be half a cent and then a cent."""
    below = Decimal("0.0049999999999999")
    assert counter_amount(below, 1) == (Decimal("0.00"), Decimal("0.005000000000"))


def test_a_third_of_an_hour_keeps_its_exactness() -> None:
    """20 minutes x 3 units x 0.005 is exactly half a cent, which 0.333... hours would miss."""
    assert time_gauge_amount(HOUR // 3, 3, Decimal("0.005"))[0] == Decimal("0.01")


@pytest.mark.parametrize("value", [0.1, True, "1", None])
def test_only_whole_numbers_and_decimals_pass_the_door(value: object) -> None:
    for attempt in (
        lambda: counter_amount(value, 1),  # type: ignore[arg-type]
        lambda: time_gauge_amount(HOUR, 1, value),  # type: ignore[arg-type]
        lambda: time_gauge_amount(HOUR, 1, 1, value),  # type: ignore[arg-type]
        lambda: total([value]),  # type: ignore[list-item]
        lambda: plain(value),  # type: ignore[arg-type]
    ):
        with pytest.raises(TypeError, match=f"is a {type(value).__name__}; money is computed from"):
            attempt()


def test_a_ratio_of_floats_is_refused() -> None:
    with pytest.raises(TypeError, match="a ratio is two integers"):
        round_ratio(1.0, 3, 2)  # type: ignore[arg-type]


@pytest.mark.parametrize("value", ["NaN", "Infinity", "-Infinity"])
def test_what_is_no_number_is_refused(value: str) -> None:
    with pytest.raises(InvalidInput, match="not a number"):
        exact_product(Decimal(value))


def test_a_total_is_the_exact_sum_of_its_amounts_beyond_the_precision_of_a_context() -> None:
    large = Decimal("99999999999999999999999999999999.99")
    assert str(total([large, Decimal("0.01")])) == "100000000000000000000000000000000.00"
    assert str(total([Decimal("19.20"), Decimal("-19.2"), Decimal(0)])) == "0.00"
    assert str(total([])) == "0.00"


def test_a_total_refuses_what_was_not_rounded() -> None:
    with pytest.raises(InvalidInput, match=r"0\.005 is not an amount of 2 decimals"):
        total([Decimal("0.005")])


@pytest.mark.parametrize(
    ("length_us", "text"),
    [(240 * HOUR, "240"), (HOUR // 2, "0.5"), (60_000_000, "0.016667"), (1, "0"), (1_800, "0.000001")],
)
def test_hours_are_whole_if_whole_and_else_have_up_to_six_decimals(length_us: int, text: str) -> None:
    assert str(hours(length_us)) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [
        ("18.0", "18"),
        ("1E+2", "100"),
        ("0E-12", "0"),
        ("-0.0", "0"),
        ("0.50", "0.5"),
        ("1E-7", "0.0000001"),
        ("10", "10"),
    ],
)
def test_plain_is_the_shortest_form_without_an_exponent(number: str, text: str) -> None:
    assert f"{plain(Decimal(number)):f}" == text


def test_a_currency_is_three_capitals() -> None:
    assert check_currency("EUR") == "EUR"
    with pytest.raises(InvalidInput, match="three capitals"):
        check_currency("eur")


@pytest.mark.parametrize(("code", "decimals"), [("JPY", 0), ("KWD", 3), ("CLF", 4)])
def test_a_currency_without_cents_is_refused(code: str, decimals: int) -> None:
    """Two decimals would invent hundredths of a yen, and lose thousandths of a dinar."""
    with pytest.raises(InvalidInput, match=f"amounts in {code} have {decimals} decimals and not 2: price in another"):
        check_currency(code)
