"""The fold of a history into its current configuration (rules 8, 9 and 11), also beside the model of tests/model.py."""

import dataclasses
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.event import Event
from tally.domain.resource_type import Effect, Transition
from tally.domain.timeline import Projection, Step, advance, in_order, replay, step_of
from tests.histories import histories
from tests.model import Model, Record
from tests.steps import LARGE, SMALL, as_step, at, step


def replayed(*steps: Step) -> Projection:
    """The fold of a history, the same for every order of arrival."""
    results = [replay(order) for order in permutations(steps)]
    assert all(result == results[0] for result in results)
    assert results[0] is not None
    return results[0]


def test_s01_a_sample_after_the_delete_does_not_reopen() -> None:
    """S01: create 06:04:28, delete 06:04:56, and something stamped 06:04:40 that comes last: it stays deleted."""
    row = replayed(step("06:04:28", "create"), step("06:04:56", "delete"), step("06:04:40", "update", size=LARGE))
    assert (row.created_at, row.deleted_at) == (at("06:04:28"), at("06:04:56"))
    assert (row.state, row.size) == ("deleted", LARGE)


@pytest.mark.parametrize("effect", ["update", "usage"])
def test_s01_nothing_but_a_create_reopens(effect: str) -> None:
    """S01, rule 9: an update or usage stamped after the delete changes nothing but what was heard last."""
    row = replayed(
        step("06:00:00", "create", size=SMALL), step("07:00:00", "delete"), step("08:00:00", effect, size=LARGE)
    )
    assert (row.deleted_at, row.size, row.last_event_at) == (at("07:00:00"), SMALL, at("08:00:00"))


def test_s06_all_orders_of_arrival_give_one_row() -> None:
    """S06: sizes of the 5th, 8th and 7th hour, in all permutations."""
    row = replayed(
        step("05:00:00", "create", size={"size_gb": 1}),
        step("08:00:00", "update", size={"size_gb": 3}),
        step("07:00:00", "update", size={"size_gb": 2}),
    )
    assert row.size == {"size_gb": 3}


def test_s07_equal_instants_have_one_order() -> None:
    """S07, rule 8: create, resize A and resize B at one instant: the greater event id in byte order is last."""
    row = replayed(
        step("00:00:00", "create"),
        step("00:00:00", "update", "A", size=SMALL),
        step("00:00:00", "update", "a", size=LARGE),
    )
    assert row.size == LARGE


def test_s18_a_delete_without_a_life_is_deleted_and_never_lived() -> None:
    """S18: no negative life: created_at stays unknown."""
    row = replayed(step("05:00:00", "delete"))
    assert (row.created_at, row.deleted_at, row.state) == (None, at("05:00:00"), "deleted")


def test_rule_8_an_open_resource_can_be_recreated_within_one_instant() -> None:
    """Rule 8: open before, its order is usage, delete, create, update."""
    row = replayed(
        step("01:00:00", "create", size=SMALL, project_id="p1"),
        step("02:00:00", "delete"),
        step("02:00:00", "create", size=LARGE, project_id="p2"),
    )
    assert (row.created_at, row.deleted_at, row.size, row.project_id) == (at("02:00:00"), None, LARGE, "p2")


def test_rule_8_a_closed_resource_stays_closed_within_one_instant() -> None:
    """Rule 8: closed before, create and delete of one instant are a life of zero length."""
    row = replayed(step("02:00:00", "delete"), step("02:00:00", "create", size=LARGE))
    assert (row.created_at, row.deleted_at, row.size) == (at("02:00:00"), at("02:00:00"), LARGE)


def test_rule_5_nothing_carries_over_from_one_life_to_the_next() -> None:
    """Rule 5: without size it is empty, without any state it is unknown."""
    row = replayed(
        step("01:00:00", "create", size=SMALL, state="active"), step("02:00:00", "delete"), step("03:00:00", "create")
    )
    assert (row.size, row.state) == ({}, "unknown")


def test_rule_9_a_life_can_begin_with_an_update() -> None:
    """Rule 9: it is open to the left; the create that comes later is an update."""
    row = replayed(step("02:00:00", "update", size=SMALL), step("03:00:00", "create", size=LARGE))
    assert (row.created_at, row.size) == (at("02:00:00"), LARGE)


def test_rule_9_only_create_and_update_change_the_owner() -> None:
    """Rule 9: a delete in the name of another project leaves the owner."""
    row = replayed(
        step("01:00:00", "create"),
        step("02:00:00", "usage", project_id="p2"),
        step("03:00:00", "delete", project_id="p3"),
    )
    assert row.project_id == "p1"


def test_rule_9_the_collector_voids_a_synthetic_delete() -> None:
    """S16 in small: the listing missed it at 10:10, the real delete of 10:02 arrives later."""
    row = replayed(
        step("09:00:00", "create"), step("10:10:00", "delete", synthetic=True), step("10:20:00", "update", size=LARGE)
    )
    assert (row.deleted_at, row.size, row.has_synthetic) == (None, LARGE, True)


def test_an_ignored_event_leaves_no_trace() -> None:
    """Rule 6: effect ignore."""
    assert replay([step("01:00:00", "ignore")]) is None
    assert replayed(step("01:00:00", "create"), step("02:00:00", "ignore")).last_event_at == at("01:00:00")


@given(histories())
def test_rule_11_the_fold_agrees_with_the_model(history: list[Record]) -> None:
    """Rule 11: for random histories, the row says what an independent model says."""
    row, current = replay(map(as_step, history)), Model(history).current
    if row is None or row.created_at is None:
        assert current is None
        return
    assert current is not None
    assert (row.created_at, row.deleted_at) == (current.created_at, current.deleted_at)
    assert (row.project_id, row.last_state, row.size) == dataclasses.astuple(current.configuration)


@given(histories(), st.data())
def test_rule_11_in_order_steps_give_what_a_replay_gives(history: list[Record], data: st.DataObject) -> None:
    """Rule 8: whenever in_order says so, advancing the row is the same as folding the whole history."""
    steps = [as_step(record) for record in history if record.effect != "ignore"]
    cut = data.draw(st.integers(0, len(steps)))
    row, news = replay(steps[:cut]), sorted(steps[cut:], key=lambda each: each.order)
    if row is None or not in_order(row, news):
        return
    for each in news:
        row = advance(row, each)
    assert row == replay(steps)


@pytest.mark.parametrize("effect", ["create", "update"])
def test_rule_5_the_payload_wins_over_the_implied_state(effect: str) -> None:
    """Rule 5: payload.state, then the lifecycle map; a JSON null says nothing."""
    transition = Transition(Effect(effect), "active")
    assert step_of(told(state="shutoff"), transition).state == "shutoff"
    assert step_of(told(state="SHUTOFF"), transition).state == "shutoff"
    assert step_of(told(), transition).state == "active"
    assert step_of(told(state=None, size=None), transition).state == "active"
    assert step_of(told(size=None), Transition(Effect(effect))).size is None


@pytest.mark.parametrize("effect", ["usage", "delete", "ignore"])
def test_rule_5_size_and_state_are_read_from_create_and_update_only(effect: str) -> None:
    """Rule 5: neither is read from usage and delete events, not even the implied one."""
    read = step_of(told(state="shutoff", size=LARGE), Transition(Effect(effect), "active"))
    assert (read.size, read.state) == (None, None)


def told(**payload: Any) -> Event:
    """An event with this payload."""
    return Event("e", at("01:00:00"), "t", "test", "c", "thing", "1", "p1", "collector", payload)
