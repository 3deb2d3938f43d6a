"""Rating where prices change inside the month: each record as if it were cut there, exactly (rules 23 and 24)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing.model import Formula, Modifier, Price, PriceVersion
from pricing.month import MonthRecord, rate_pieces
from pricing.terms import Group, Tiers
from tally.store.database import Connection
from tests.integration.rating_by_hand import (
    Increment,
    Part,
    as_numbers,
    ends,
    make_tables,
    pieces,
    rated_in_parts,
    violations,
)
from tests.integration.test_rating_terms import CHECKS, HOUR_US, START, months, priced

END = START + timedelta(days=31)
MICROSECOND = timedelta(microseconds=1)


@st.composite
def changing(draw: st.DrawFn) -> list[Part]:
    """One to four versions, of which each prices the gauge, the counter, both, or neither, with whatever terms."""
    per = draw(st.sampled_from(Group))
    changes = sorted(START + draw(st.integers(1, 20 * HOUR_US)) * MICROSECOND for _ in range(draw(st.integers(0, 3))))
    edges = [START, *dict.fromkeys(changes), END]
    parts = []
    for no, span in enumerate(pairwise(edges)):
        prices = [draw(priced("size", Formula.TIME_GAUGE)), draw(priced("used", Formula.COUNTER))]
        kept = tuple(_counting(price, per) for price in prices if draw(st.integers(0, 4)))
        off = Modifier("p", "t", "state", "off", draw(st.decimals(0, 2, places=4)))
        parts.append((PriceVersion(f"v{no}", START.date(), None, "EUR", kept, (off,) if kept else ()), *span))
    return parts


def _counting(price: Price, per: Group) -> Price:
    """All tiers of a metric count the same group, or the versions could not share a month."""
    if price.terms is None or price.terms.tiers is None:
        return price
    return replace(price, terms=replace(price.terms, tiers=Tiers(price.terms.tiers.mode, per, price.terms.tiers.steps)))


@st.composite
def counted(draw: st.DrawFn) -> tuple[list[MonthRecord], list[Increment]]:
    """Records whose counter is told by increments, at their ends, too."""
    records, increments = draw(months()), []
    for no, record in enumerate(records):
        usage = {"size": record.usage["size"]}
        for _ in range(draw(st.integers(0, 3)) if "used" in record.usage else 0):
            offset = draw(st.integers(0, record.length_us - 1) | st.just(record.length_us))
            if offset == record.length_us and not _closes(records, no):
                offset = 0
            quantity = draw(st.decimals(0, 9, places=3))
            increments.append(Increment(no, record.from_ts + offset * MICROSECOND, "used", quantity))
            usage["used"] = usage.get("used", Decimal(0)) + quantity
        records[no] = replace(record, usage=usage)
    return records, increments


def _closes(records: Sequence[MonthRecord], no: int) -> bool:
    """Whether the life of a record ends with it."""
    own = records[no].resource_id, records[no].lifetime_no
    return all((record.resource_id, record.lifetime_no) != own for record in records[no + 1 : no + 2])


@pytest.fixture
def session(metering: Connection) -> Connection:
    """A session with the tables that rating reads."""
    make_tables(metering)
    return metering


def test_a_record_is_rated_as_if_it_were_cut_where_prices_change(session: Connection) -> None:
    """By exact fractions: random changes, terms on one side or both, prices that begin and end, counters at instants.

    The lengths of the pieces of a record add up to its length, and what they count to what it counted.
    """

    @settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
    @given(changing(), counted())
    def holds(parts: list[Part], metered: tuple[list[MonthRecord], list[Increment]]) -> None:
        records, increments = metered
        cut = list(pieces(parts, records, increments))
        expected = {
            (no, rate.dimension, piece.from_ts): (
                is_cut, ends(piece), version.version, rate.quantity, rate.price, rate.amount, rate.amount_exact,
                as_numbers(rate.basis),
            )
            for (no, is_cut, version, piece), rating in zip(
                cut, rate_pieces([(version, piece) for _, _, version, piece in cut]), strict=True
            )
            for rate in rating.rates
        }
        found = {
            key: (*said[:-1], as_numbers(said[-1]))
            for key, said in rated_in_parts(session, parts, records, increments).items()
        }
        assert found == expected
        assert [violations(session, name) for name in CHECKS] == [[], []]
        for no, record in enumerate(records):
            own = [piece for place, _, _, piece in cut if place == no]
            assert sum(piece.length_us for piece in own) == record.length_us
            assert sum(piece.usage.get("used", 0) for piece in own) == record.usage.get("used", 0)

    holds()
