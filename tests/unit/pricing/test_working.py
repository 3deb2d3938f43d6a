"""An amount worked out for a person (rule 23)."""

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from pricing.model import Formula
from pricing.money import counter_amount, time_gauge_amount
from pricing.working import work_out

NUMBERS = st.integers(0, 10**12).map(lambda millionths: Decimal(millionths).scaleb(-6))


def test_a_gauge_over_time_is_divided_by_the_hour_and_rounded_once() -> None:
    """March of four vcpus at 0.02 an hour."""
    working = work_out(Formula.TIME_GAUGE, 2_678_400_000_000, 4, Decimal("0.020"), Decimal(1), Decimal("1.0"))
    assert working.lines == (
        "microseconds x quantity x price x state modifier x type modifier / microseconds of an hour",
        "2678400000000 x 4 x 0.02 x 1 x 1 = 214272000000 / 3600000000 = 59.520000000000",
        "59.52: rounded once, half up (away from zero), to 2 decimals",
    )


def test_a_counter_is_not_divided() -> None:
    """Half a cent is rounded away from zero, also of a reversal."""
    assert work_out(Formula.COUNTER, 60, Decimal(-1), Decimal("0.005"), Decimal(1), Decimal(1)).lines == (
        "quantity x price",
        "-1 x 0.005 = -0.005 = -0.005000000000",
        "-0.01: rounded once, half up (away from zero), to 2 decimals",
    )


@given(st.integers(1, 10**13), st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS))
def test_it_comes_to_what_rating_comes_to(us: int, numbers: tuple[Decimal, Decimal, Decimal, Decimal]) -> None:
    """To the cent, and to the twelfth decimal."""
    quantity, price, state, kind = numbers
    gauge = work_out(Formula.TIME_GAUGE, us, quantity, price, state, kind)
    assert (gauge.amount, gauge.quotient) == time_gauge_amount(us, quantity, price, state, kind)
    counter = work_out(Formula.COUNTER, us, quantity, price, state, kind)
    assert (counter.amount, counter.quotient) == counter_amount(quantity, price)
