"""The rounding of rated amounts in SQL beside exact fractions (rule 23)."""

from decimal import Decimal
from fractions import Fraction

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from pricing.money import round_ratio
from tally.store.database import Connection
from tests.integration.metering_sql import compiled_expression

MICROSECONDS_PER_HOUR = 3_600_000_000
MONTH_US = 31 * 24 * MICROSECONDS_PER_HOUR

lengths = st.integers(1, MONTH_US)
quantities = st.decimals(0, 10**9, places=6)
prices = st.decimals(0, 1000, places=10)
modifiers = st.decimals(0, 3, places=4)


def exact(value: Fraction, decimals: int) -> Decimal:
    """Half away from zero, from an exact fraction."""
    return round_ratio(value.numerator, value.denominator, decimals)


def test_sql_rounds_as_exact_fractions_do(metering: Connection) -> None:
    """Rule 23: half away from zero, once, whatever the sign and the size; ties of half a cent included.

    Also from a quotient that is cut off a decimal further than what is rounded.
    """
    template = "{{ round_half_up('numerator', 3600000000, 2) }}, {{ round_half_up('numerator', 3600000000, 12) }}"
    numerator = "select %s::numeric * %s * %s * %s as numerator"
    query = f"select {compiled_expression(metering, template)} from ({numerator}) as given".encode()
    cut_off = compiled_expression(metering, "{{ cut_off_after_13_decimals('numerator') }}")
    both = f"({cut_off})::numeric(38, 2), ({cut_off})::numeric(38, 12)"
    from_cut_off = f"select {both} from ({numerator}) as given".encode()

    @settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(lengths, quantities, prices, modifiers, st.sampled_from((1, -1)))
    @example(MICROSECONDS_PER_HOUR, Decimal(1), Decimal("0.005"), Decimal(1), 1)
    @example(MICROSECONDS_PER_HOUR, Decimal(1), Decimal("0.005"), Decimal(1), -1)
    @example(MICROSECONDS_PER_HOUR - 1, Decimal(1), Decimal("0.005"), Decimal(1), 1)
    @example(18, Decimal(1), Decimal("0.0001"), Decimal(1), 1)  # half of the twelfth decimal
    @example(MONTH_US, Decimal(10**9), Decimal("999.9999999999"), Decimal(3), 1)
    def holds(length_us: int, quantity: Decimal, price: Decimal, modifier: Decimal, sign: int) -> None:
        values = [sign * length_us, quantity, price, modifier]
        product = sign * length_us * Fraction(quantity) * Fraction(price) * Fraction(modifier)
        amount = product / MICROSECONDS_PER_HOUR
        for one in (query, from_cut_off):
            assert metering.execute(one, values).fetchone() == (exact(amount, 2), exact(amount, 12))

    holds()
