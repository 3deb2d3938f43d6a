"""Which finalized periods a change of a relation touches (rule 28)."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tally.domain.closed_periods import FinalizedPeriod, touched, touches
from tally.domain.graph import Relation, relations_of_period
from tally.domain.period import BillingPeriod

FINALIZED = [
    FinalizedPeriod(str(month), month.start, month.end)
    for month in (BillingPeriod(2026, 3), BillingPeriod(2026, 1), BillingPeriod(2026, 2))
]
_DAYS = st.integers(0, 120).map(lambda days: datetime(2025, 12, 15, tzinfo=UTC) + timedelta(days=days))


def relation(since: datetime, until: datetime | None = None, percent: int | Decimal = 10) -> Relation:
    ends = UUID(int=1), UUID(int=2)
    return Relation(UUID(int=3), 1, *ends, "managed_by", since, until, {"percent": percent})


def day(month: int, number: int) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


def test_a_new_relation_touches_the_periods_that_see_it() -> None:
    assert touched(None, relation(day(2, 28)), FINALIZED) == ["2026-02", "2026-03"]
    assert touched(None, relation(day(2, 28), day(3, 1)), FINALIZED) == ["2026-02"]
    assert touched(None, relation(day(4, 1)), FINALIZED) == []


def test_an_end_within_a_period_touches_the_later_ones_only() -> None:
    """A relation counts for the whole of each period that it is valid in."""
    open_ended = relation(day(1, 5))
    assert touched(open_ended, replace(open_ended, valid_to=day(2, 1)), FINALIZED) == ["2026-02", "2026-03"]
    assert touched(open_ended, replace(open_ended, valid_to=day(2, 2)), FINALIZED) == ["2026-03"]
    assert touched(open_ended, replace(open_ended, valid_to=day(3, 2)), FINALIZED) == []


def test_metadata_and_beginning_touch_every_period_that_sees_one_of_the_two() -> None:
    """Of several relations the latest valid_from counts."""
    before = relation(day(2, 5))
    assert touched(before, replace(before, metadata={"percent": 11}), FINALIZED) == ["2026-02", "2026-03"]
    assert touched(before, replace(before, valid_from=day(3, 5)), FINALIZED) == ["2026-02", "2026-03"]
    assert touched(before, replace(before, metadata={"percent": Decimal("10.0")}, reason="x"), FINALIZED) == []


@given(_DAYS, st.none() | _DAYS, _DAYS, st.none() | _DAYS, st.integers(10, 11))
def test_what_touches_nothing_leaves_the_relations_of_the_period_as_they_were(
    since: datetime, until: datetime | None, later_since: datetime, later_until: datetime | None, percent: int
) -> None:
    before, after = relation(since, until), replace(relation(later_since, later_until, percent), version=2)
    for _, start, end in FINALIZED:
        was, is_ = (
            [(r.source, r.target, r.type, r.valid_from, r.metadata) for r in relations_of_period(versions, start, end)]
            for versions in ([before], [before, after])
        )
        assert touches(before, after, start, end) == (was != is_)
