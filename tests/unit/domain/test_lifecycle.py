"""The whole life of one resource (rules 8 to 10), also beside the model of tests/model.py."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tally.domain.lifecycle import Interval, Lifecycle, Lifetime, lifecycle, seen_by
from tally.domain.timeline import Step, replay
from tests.histories import histories
from tests.model import Model, Record
from tests.steps import LARGE, SMALL, as_step, at, step


def read(*steps: Step) -> Lifecycle:
    """The lifecycle of a history that holds something."""
    found = lifecycle(steps)
    assert found is not None
    return found


def spans(life: Lifetime) -> list[tuple[datetime, datetime | None, dict[str, Any]]]:
    """(from, to, size) of the intervals of a life."""
    return [(interval.from_ts, interval.to_ts, interval.size) for interval in life.intervals]


def test_create_resize_delete_is_one_life_of_two_intervals() -> None:
    """The seed's lifecycle; each boundary names its event."""
    found = read(
        step("01:00:00", "create", size=SMALL), step("02:00:00", "update", size=LARGE), step("03:00:00", "delete")
    )
    (life,) = found.lifetimes
    assert (life.no, life.opened_at, life.closed_at, life.open_left) == (1, at("01:00:00"), at("03:00:00"), False)
    assert spans(life) == [(at("01:00:00"), at("02:00:00"), SMALL), (at("02:00:00"), at("03:00:00"), LARGE)]
    assert boundaries(life) == [("create 01:00:00", "update 02:00:00"), ("update 02:00:00", "delete 03:00:00")]


def test_an_open_life_has_no_end() -> None:
    """Nothing says yet when its last interval ends."""
    (life,) = read(step("01:00:00", "create")).lifetimes
    assert life.closed_at is None
    assert [(interval.to_ts, interval.ended_by) for interval in life.intervals] == [(None, None)]


def test_s23_a_resource_can_live_twice_and_the_hole_is_legal() -> None:
    """S23: exists from 12 to 17 h and from 19 to 22 h."""
    found = read(
        step("12:00:00", "create", size=SMALL),
        step("17:00:00", "delete"),
        step("19:00:00", "create"),
        step("22:00:00", "delete"),
    )
    assert [(life.no, *span) for life in found.lifetimes for span in spans(life)] == [
        (1, at("12:00:00"), at("17:00:00"), SMALL),
        (2, at("19:00:00"), at("22:00:00"), {}),
    ]


def test_rule_8_a_recreation_within_one_instant_ends_a_life_and_begins_another() -> None:
    """Rule 8: the event that ends the old life is the creation of the new one, as in the ledger."""
    found = read(
        step("01:00:00", "create", size=SMALL, project_id="p1"),
        step("02:00:00", "delete"),
        step("02:00:00", "create", size=LARGE, project_id="p2"),
    )
    old, new = found.lifetimes
    assert spans(old) == [(at("01:00:00"), at("02:00:00"), SMALL)]
    assert spans(new) == [(at("02:00:00"), None, LARGE)]
    assert boundaries(old) == [("create 01:00:00", "create 02:00:00")]


def test_rule_10_zero_length_vanishes_before_neighbours_coalesce() -> None:
    """Rule 10: a size that held for no time is not seen, and the equal ones around it are one interval."""
    found = read(
        step("01:00:00", "create", size=SMALL),
        step("02:00:00", "update", "a", size=LARGE),
        step("02:00:00", "update", "b", size=SMALL),
        step("03:00:00", "update", size={"size_gb": Decimal("100.0")}),
    )
    assert spans(found.lifetimes[0]) == [(at("01:00:00"), None, SMALL)]


def test_a_number_is_neither_true_nor_its_text() -> None:
    """Configurations are compared by value as the database compares them: 1, true and "1" are three sizes."""
    found = read(
        step("01:00:00", "create", size={"n": 1}),
        step("02:00:00", "update", size={"n": True}),
        step("03:00:00", "update", size={"n": "1"}),
    )
    assert [size for _, _, size in spans(found.lifetimes[0])] == [{"n": 1}, {"n": True}, {"n": "1"}]


def test_s24_a_life_of_no_length_is_a_life_without_intervals() -> None:
    """S24: created and deleted at the same instant."""
    (life,) = read(step("01:00:00", "create", size=SMALL), step("01:00:00", "delete")).lifetimes
    assert (life.opened_at, life.closed_at, life.intervals) == (at("01:00:00"), at("01:00:00"), [])
    assert [last.size for last in life.configurations] == [SMALL]


def test_s18_a_life_that_begins_with_an_update_is_open_left() -> None:
    """S18: when it began is not known."""
    assert [life.open_left for life in read(step("01:00:00", "update")).lifetimes] == [True]


def test_s16_a_void_synthetic_delete_ends_nothing() -> None:
    """S16: the listing missed it at 10:10, the real delete of 10:02 arrives later: one end."""
    found = read(
        step("09:00:00", "create", size=SMALL),
        step("10:02:00", "delete"),
        step("10:10:00", "delete", synthetic=True),
    )
    assert [spans(life) for life in found.lifetimes] == [[(at("09:00:00"), at("10:02:00"), SMALL)]]


def test_s01_an_event_after_the_delete_is_an_anomaly() -> None:
    """S01: it never reopens the resource."""
    found = read(step("06:04:28", "create"), step("06:04:56", "delete"), step("06:10:00", "update", size=LARGE))
    assert [(anomaly.kind, anomaly.event.event_id) for anomaly in found.anomalies] == [
        ("after_delete", "update 06:10:00")
    ]
    assert [life.closed_at for life in found.lifetimes] == [at("06:04:56")]


def test_nothing_but_ignored_events_is_no_lifecycle() -> None:
    """Rule 6: effect ignore leaves no trace."""
    assert lifecycle([step("01:00:00", "ignore")]) is None


def test_s61_an_owner_sees_its_own_part_of_a_life() -> None:
    """S61, S22: after a transfer, each of the two sees its own intervals, and no event of the other."""
    found = read(
        step("01:00:00", "create", size=SMALL, project_id="p1"),
        step("02:00:00", "update", size=LARGE, project_id="p2"),
        step("03:00:00", "delete", project_id="p2"),
    )
    former, present = seen_by(found, {"p1"}.__contains__), seen_by(found, {"p2"}.__contains__)
    assert former is not None
    assert present is not None
    assert former.current is None
    assert [(life.opened_at, life.closed_at) for life in former.lifetimes] == [(at("01:00:00"), at("02:00:00"))]
    assert boundaries(former.lifetimes[0]) == [("create 01:00:00", None)]
    assert present.current == found.current
    assert [(life.opened_at, life.closed_at) for life in present.lifetimes] == [(at("02:00:00"), at("03:00:00"))]
    assert seen_by(found, {"p3"}.__contains__) is None


def test_s61_an_anomaly_is_shown_to_the_project_of_its_event() -> None:
    """S61: and to nobody else."""
    found = read(step("01:00:00", "create"), step("02:00:00", "delete"), step("03:00:00", "usage", project_id="p2"))
    seen = [seen_by(found, {project}.__contains__) for project in ("p1", "p2")]
    assert [part and len(part.anomalies) for part in seen] == [0, 1]
    assert seen[1] is not None
    assert (seen[1].current, seen[1].lifetimes) == (None, ())


@given(histories())
def test_the_lifecycle_is_that_of_the_model(history: list[Record]) -> None:
    """Rules 8 to 10: lives, intervals and anomalies of random histories are those of an independent model."""
    found, model = lifecycle(map(as_step, history)), Model(history)
    if found is None:
        assert (model.lifetimes, model.anomalies) == ([], [])
        return
    lives = found.lifetimes
    assert [(life.no, life.opened_at, life.closed_at, life.open_left) for life in lives] == [
        (life.no, life.opened_at, life.closed_at, life.open_left) for life in model.lifetimes
    ]
    assert [(life.no, *shown(interval)) for life in lives for interval in life.intervals] == [
        (i.lifetime_no, i.from_ts, i.to_ts, i.configuration.project_id, i.configuration.state, i.configuration.size)
        for i in model.intervals
    ]
    assert [(anomaly.kind, anomaly.event.event_id) for anomaly in found.anomalies] == [
        (anomaly.kind, anomaly.event_id) for anomaly in model.anomalies
    ]


@given(histories())
def test_the_lifecycle_ends_with_the_projection(history: list[Record]) -> None:
    """Rule 11: what is current is the fold of the same history, and the last configuration of the last life."""
    steps = [as_step(record) for record in history]
    found, row = lifecycle(steps), replay(steps)
    assert (found and found.current) == row
    if found and found.lifetimes and row:
        last = found.lifetimes[-1].configurations[-1]
        assert (last.project_id, last.state, last.size) == (row.project_id, row.last_state, row.size)
        assert found.lifetimes[-1].opened_at == row.created_at


@given(histories(), st.permutations(range(10)))
def test_the_order_of_arrival_does_not_matter(history: list[Record], order: list[int]) -> None:
    """Rule 8: one history has one lifecycle."""
    steps = [as_step(record) for record in history]
    assert lifecycle(steps) == lifecycle([steps[place] for place in order if place < len(steps)])


@given(histories())
def test_the_parts_of_all_owners_make_up_the_whole(history: list[Record]) -> None:
    """S61: each interval is seen by exactly one of them; who sees both sees everything."""
    found = lifecycle(map(as_step, history))
    if found is None:
        return
    assert seen_by(found, {"p1", "p2"}.__contains__) == found
    parts = [seen_by(found, {project}.__contains__) for project in ("p1", "p2")]
    seen = [i for part in parts if part for life in part.lifetimes for i in life.configurations]
    whole = [i for life in found.lifetimes for i in life.configurations]
    assert by_begin(seen) == by_begin(whole)


def boundaries(life: Lifetime) -> list[tuple[str, str | None]]:
    """(the event that caused it, the event that ended it) of the intervals of a life."""
    return [(i.caused_by.event_id, i.ended_by and i.ended_by.event_id) for i in life.intervals]


def by_begin(intervals: Iterable[Interval]) -> list[Interval]:
    """The same in one order, but for what ended them, which may belong to another."""
    nameless = [replace(interval, ended_by=None) for interval in intervals]
    return sorted(nameless, key=lambda interval: (interval.from_ts, interval.caused_by.event_id))


def shown(interval: Interval) -> tuple[object, ...]:
    """What the model says of an interval."""
    return (interval.from_ts, interval.to_ts, interval.project_id, interval.state, interval.size)
