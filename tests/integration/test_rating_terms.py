"""Rating in SQL beside the reference in exact fractions, over random months of random prices (rule 23)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing.model import Formula, Modifier, Price, PriceVersion
from pricing.month import MonthRecord, rate_month
from pricing.terms import Group, Terms, Tier, TierMode, Tiers
from tally.store.database import Connection
from tests.integration.rating_by_hand import as_numbers, make_tables, rated, violations

START = datetime(2026, 3, 1, tzinfo=UTC)
HOUR_US = 3_600_000_000
CHECKS = ("amount_keeps_terms", "amount_is_rounded_exact_amount")

prices = st.decimals(0, 3, places=10) | st.sampled_from([Decimal("0.005"), Decimal("0.01"), Decimal(0)])
quantities = st.decimals(0, 60, places=6) | st.integers(0, 20).map(Decimal)
lengths = st.integers(1, 5 * HOUR_US) | st.integers(1, 4).map(lambda hours: hours * HOUR_US)
# Of round months: what is used often comes to a bound of a tier, or to nothing.
few, an_hour = st.sampled_from([Decimal(0), Decimal(1), Decimal(2)]), st.just(HOUR_US)
bounds = st.decimals("0.5", 200, places=2) | st.integers(1, 40).map(Decimal) | st.integers(1, 8).map(Decimal)


@st.composite
def tiers(draw: st.DrawFn) -> Tiers:
    steps = [Tier(bound, draw(prices)) for bound in [*sorted(draw(st.sets(bounds, max_size=3))), None]]
    return Tiers(draw(st.sampled_from(TierMode)), draw(st.sampled_from(Group)), tuple(steps))


@st.composite
def priced(draw: st.DrawFn, metric: str, formula: Formula) -> Price:
    times: st.SearchStrategy[int | None] = st.none()
    if formula is Formula.TIME_GAUGE:
        times = st.none() | st.integers(1, 4 * 3600).map(lambda seconds: seconds * 1_000_000)
    cap = draw(st.none() | st.decimals(0, 30, places=3))
    terms = Terms(draw(st.none() | tiers()), draw(times), draw(times), cap)
    price = terms.tiers.steps[-1].price if terms.tiers else draw(prices)
    return Price("p", "t", metric, formula, price, None if terms == Terms() else terms)


@st.composite
def months(draw: st.DrawFn) -> list[MonthRecord]:
    """Three resources of two projects, in lives of records that follow each other."""
    records = []
    length, quantity = draw(st.sampled_from([(lengths, quantities), (an_hour, few)]))
    for resource in range(draw(st.integers(1, 3))):
        at = START + timedelta(hours=draw(st.integers(0, 2)))
        life = 1
        for _ in range(draw(st.integers(1, 4))):
            length_us = draw(length)
            usage: dict[str, Any] = {"size": draw(quantity), "used": draw(quantity)}
            if draw(st.booleans()):
                usage.pop("used")
            owner, state = draw(st.sampled_from(["a", "b"])), draw(st.sampled_from(["on", "off"]))
            records.append(MonthRecord("c", "p", "t", f"r{resource}", owner, life, at, length_us, state, usage))
            at += timedelta(microseconds=length_us)
            if draw(st.booleans()):
                life, at = life + 1, at + timedelta(hours=draw(st.integers(0, 2)))
    return records


@pytest.fixture
def session(metering: Connection) -> Connection:
    """A session with the tables that rating reads."""
    make_tables(metering)
    return metering


def test_sql_rates_a_month_as_exact_fractions_do(session: Connection) -> None:
    """Prices of ten decimals, lengths of microseconds, tiers, caps, steps of time: the same cent, and the same twelfth.

    What each amount goes by is told alike, so that either can be worked out again from a row of the ledger. The
    invariants, which work it out in a third way, find nothing.
    """

    @settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
    @given(priced("size", Formula.TIME_GAUGE), priced("used", Formula.COUNTER), months(), st.decimals(0, 2, places=4))
    def holds(gauge: Price, counter: Price, records: list[MonthRecord], modifier: Decimal) -> None:
        off = Modifier("p", "t", "state", "off", modifier)
        version = PriceVersion("v", START.date(), None, "EUR", (gauge, counter), (off,))
        expected = [
            {rate.dimension: (rate.price, rate.amount, rate.amount_exact, as_numbers(rate.basis)) for rate in one.rates}
            for one in rate_month(version, records)
        ]
        found = [
            {dimension: (*said[:3], as_numbers(said[3])) for dimension, said in one.items()}
            for one in rated(session, version, records)
        ]
        assert found == expected
        assert [violations(session, name) for name in CHECKS] == [[], []]

    holds()
