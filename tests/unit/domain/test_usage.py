"""The usage of one resource in a period (rules 13 to 15), also beside the model of tests/model.py."""

from datetime import UTC, datetime
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from tally.domain.instants import parse_instant
from tally.domain.lifecycle import lifecycle
from tally.domain.usage import Gain, Usage, minutes, usage_of
from tests.histories import INSTANTS, histories
from tests.model import Model, Record
from tests.steps import as_step

MARCH = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)


def day(text: str) -> datetime:
    """An instant of 2026."""
    return parse_instant(f"2026-{text}T00:00:00Z")


def usage(*records: Record, sampled: tuple[Gain, ...] = ()) -> list[Usage]:
    """The usage of a history in March."""
    whole = lifecycle(as_step(record) for record in records)
    return [] if whole is None else usage_of(whole, *MARCH, sampled)


LIFE = (Record(day("03-05"), "a", "create"), Record(day("03-20"), "b", "delete"))


@given(histories(), st.sampled_from(INSTANTS), st.sampled_from(INSTANTS))
def test_usage_is_what_the_model_says(history: list[Record], one: datetime, other: datetime) -> None:
    """Whatever the history, and whatever the period: an instant of it is a boundary more often than not."""
    start, end = sorted((one, other))
    whole = lifecycle(as_step(record) for record in history)
    found = [] if whole is None else usage_of(whole, start, end)
    assert [(u.lifetime_no, u.from_ts, u.to_ts, u.project_id, u.state, u.size, u.counters) for u in found] == [
        (m.lifetime_no, m.from_ts, m.to_ts, m.configuration.project_id, m.configuration.state, m.configuration.size,
         m.counters)
        for m in Model(history).usage(start, end)
    ]


def test_a_record_names_the_events_that_bound_it_within_the_period() -> None:
    """At the edges of the period nothing does."""
    (within,), (across,) = usage(*LIFE), usage(Record(day("02-05"), "a", "create"))
    assert [within.caused_by and within.caused_by.event_id, within.ended_by and within.ended_by.event_id] == ["a", "b"]
    assert (across.caused_by, across.ended_by, across.from_ts, across.to_ts) == (None, None, *MARCH)


def test_minutes_are_rounded_half_up_to_six_decimals() -> None:
    """Whole if whole; 30 microseconds are half a millionth of a minute."""
    assert [minutes(us) for us in (60_000_000, 29, 30, 89, 90)] == [
        Decimal(1), Decimal(0), Decimal("0.000001"), Decimal("0.000001"), Decimal("0.000002"),
    ]


def test_a_gain_that_spans_the_end_belongs_to_the_life_that_ended() -> None:
    """Also if the resource lives again when it is sampled."""
    again = Record(day("03-21"), "c", "create")
    gain = Gain(day("03-19"), day("03-22"), "egress_gb", Decimal(5))
    assert [record.counters for record in usage(*LIFE, again, sampled=(gain,))] == [{"egress_gb": 5}, {}]


def test_a_gain_after_the_end_belongs_to_nothing() -> None:
    """It is a finding of the run."""
    gain = Gain(day("03-20"), day("03-22"), "egress_gb", Decimal(5))
    assert [record.counters for record in usage(*LIFE, sampled=(gain,))] == [{}]


def test_a_first_sample_counts_only_in_a_life_that_began_within_the_period() -> None:
    """Else it is the baseline of its series."""
    first = Gain(None, day("03-10"), "egress_gb", Decimal(5))
    before = Record(day("02-05"), "a", "create")
    open_left = Record(day("03-05"), "a", "update")
    assert [r.counters for r in usage(LIFE[0], sampled=(first,))] == [{"egress_gb": 5}]
    assert [r.counters for r in usage(before, sampled=(first,))] == [{}]
    assert [r.counters for r in usage(open_left, sampled=(first,))] == [{}]
