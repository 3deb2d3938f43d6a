"""The model of the timeline, held to values computed by hand: a second opinion that is wrong proves nothing.

Each test restates a rule of DESIGN.md section 4 or a public failure of another system (S01 and so on).
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise, permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tests.histories import arrivals, histories
from tests.model import Anomaly, Configuration, Current, Interval, Lifetime, Model, Record

MARCH = BillingPeriod.parse("2026-03")
APRIL = BillingPeriod.parse("2026-04")
MINUTE_US = 60_000_000
SMALL = {"vcpus": 2}
LARGE = {"vcpus": 4}


def at(text: str) -> datetime:
    """An instant of 2026, such as 03-10T12:00; the clock may be left out."""
    return parse_instant(f"2026-{text}{'' if 'T' in text else 'T00:00'}Z")


def event(when: str, effect: str, event_id: str = "", **fields: Any) -> Record:
    """An event; without an id it is named by its effect and instant."""
    return Record(timestamp=at(when), event_id=event_id or f"{effect} {when}", effect=effect, **fields)


def synthetic(when: str, effect: str, event_id: str = "", **fields: Any) -> Record:
    """An event that reconciliation wrote."""
    return event(when, effect, event_id or f"sync {effect} {when}", source="reconciliation", **fields)


def usage(when: str, pulls: str, event_id: str = "") -> Record:
    """An event that only counts."""
    return event(when, "usage", event_id, usage={"pulls": Decimal(pulls)})


def minutes(history: Sequence[Record], period: BillingPeriod = MARCH) -> list[Decimal]:
    """The lengths of the usage records of a period."""
    return [Decimal(record.length_us) / MINUTE_US for record in Model(history).usage(period.start, period.end)]


def pulls(history: Sequence[Record], period: BillingPeriod = MARCH) -> list[Decimal | None]:
    """What each usage record of a period counts."""
    return [record.counters.get("pulls") for record in Model(history).usage(period.start, period.end)]


def spans(history: Sequence[Record]) -> list[tuple[datetime, datetime | None]]:
    """Where intervals begin and end."""
    return [(interval.from_ts, interval.to_ts) for interval in Model(history).intervals]


def lives(history: Sequence[Record]) -> list[tuple[datetime, datetime | None, bool]]:
    """Where lifetimes begin and end, and whether they are open-left."""
    return [(life.opened_at, life.closed_at, life.open_left) for life in Model(history).lifetimes]


def anomalies(history: Sequence[Record]) -> list[str]:
    """The kinds of anomalies, in order."""
    return [anomaly.kind for anomaly in Model(history).anomalies]


# Lifetimes


def test_a_late_measurement_does_not_reopen_a_deleted_resource() -> None:
    """S01: deleted after 28 seconds it stays deleted, and usage from within its life is counted."""
    history = [event("03-02T06:04:28", "create"), event("03-02T06:04:56", "delete"), usage("03-02T06:04:40", "1")]
    assert [record.length_us for record in Model(history).usage(MARCH.start, MARCH.end)] == [28_000_000]
    assert pulls(history) == [1]
    assert anomalies(history) == []


@pytest.mark.parametrize("effect", ["update", "usage"])
def test_what_is_stamped_after_the_delete_is_an_anomaly(effect: str) -> None:
    """S01, rule 9: an update or usage after a delete never reopens."""
    history = [event("03-02", "create"), event("03-03", "delete"), event("03-04", effect)]
    assert lives(history) == [(at("03-02"), at("03-03"), False)]
    assert Model(history).anomalies == [Anomaly("after_delete", f"{effect} 03-04")]


def test_a_delete_without_a_life_is_an_anomaly_and_no_negative_usage() -> None:
    """S18: a stop without a start in the history measures nothing."""
    history = [event("03-05", "delete")]
    assert lives(history) == []
    assert minutes(history) == []
    assert Model(history).current is None
    assert anomalies(history) == ["delete_without_life"]


def test_a_history_that_begins_with_an_update_is_open_left() -> None:
    """Rule 9: the lifetime starts where it is first seen, and says so."""
    history = [event("03-05", "update", size=SMALL), event("03-06", "create", size=LARGE), event("03-07", "delete")]
    assert lives(history) == [(at("03-05"), at("03-07"), True)]
    assert spans(history) == [(at("03-05"), at("03-06")), (at("03-06"), at("03-07"))]


def test_usage_before_the_first_life_does_not_hinder_an_open_left_one() -> None:
    """Rule 9: usage without a life is reported, and the update after it opens."""
    history = [usage("03-04", "5"), event("03-05", "update")]
    assert lives(history) == [(at("03-05"), None, True)]
    assert anomalies(history) == ["usage_without_life"]
    assert pulls(history) == [None]


def test_an_update_after_an_orphan_delete_opens_nothing() -> None:
    """Rule 9: after any delete, also one that closed nothing, only a create opens."""
    history = [event("03-04", "delete"), event("03-05", "update"), event("03-06", "create")]
    assert lives(history) == [(at("03-06"), None, False)]
    assert anomalies(history) == ["delete_without_life", "after_delete"]


def test_a_second_create_is_an_update_and_a_second_delete_is_nothing() -> None:
    """Rule 9: create on an open lifetime, delete on a closed one."""
    history = [
        event("03-01", "create", size=SMALL),
        event("03-02", "create", size=LARGE),
        event("03-03", "delete"),
        event("03-04", "delete"),
    ]
    assert lives(history) == [(at("03-01"), at("03-03"), False)]
    assert spans(history) == [(at("03-01"), at("03-02")), (at("03-02"), at("03-03"))]
    assert anomalies(history) == []


def test_the_hole_between_two_lives_of_one_id_is_legal() -> None:
    """S23: 12 to 17 h and 19 to 22 h are two lifetimes of 300 and 180 minutes, and nothing carries over."""
    history = [
        event("03-02T12:00", "create", "a", size=SMALL, state="active"),
        event("03-02T17:00", "delete", "b"),
        event("03-02T19:00", "create", "c"),
        event("03-02T22:00", "delete", "d"),
    ]
    assert minutes(history) == [300, 180]
    assert [life.no for life in Model(history).lifetimes] == [1, 2]
    assert Model(history).intervals[1].configuration == Configuration("project", "unknown", {})


def test_ignored_events_do_not_exist() -> None:
    """Rule 6: an ignored event neither opens nor counts, whatever it carries."""
    history = [event("03-01", "ignore", size=SMALL, usage={"pulls": Decimal(3)}), event("03-02", "create")]
    assert lives(history) == [(at("03-02"), None, False)]
    assert spans(history) == [(at("03-02"), None)]
    assert anomalies(history) == []


# Splits


def test_each_resize_ends_the_former_interval() -> None:
    """S19: 100 to 200, 300 and 400 GB are four contiguous records of 44,640 minutes together."""
    history = [
        event("02-01", "create", size={"size_gb": 100}),
        event("03-10", "update", size={"size_gb": 200}),
        event("03-12", "update", size={"size_gb": 300}),
        event("03-20", "update", size={"size_gb": 400}),
    ]
    assert minutes(history) == [12_960, 2_880, 11_520, 17_280]
    assert sum(minutes(history)) == 44_640


def test_a_resize_in_april_does_not_change_march() -> None:
    """S21: 20 minutes small and the rest large, before and after a later resize."""
    history = [
        event("03-31T10:00", "create", size=SMALL),
        event("03-31T10:20", "update", size=LARGE),
        event("03-31T11:00", "delete"),
    ]
    assert minutes(history) == [20, 40]
    resized_later = [*history[:2], event("04-02", "update", size={"vcpus": 8})]
    assert minutes(resized_later) == [20, 820]
    assert [r.configuration.size for r in Model(resized_later).usage(MARCH.start, MARCH.end)] == [SMALL, LARGE]


def test_a_transfer_splits_between_the_owners() -> None:
    """S22: 20,880 minutes for the old owner and 23,760 for the new one."""
    history = [
        event("02-01", "create", project_id="A", size={"size_gb": 100}),
        event("03-15T12:00", "update", project_id="B"),
    ]
    records = Model(history).usage(MARCH.start, MARCH.end)
    assert [(r.configuration.project_id, r.length_us // MINUTE_US) for r in records] == [("A", 20_880), ("B", 23_760)]
    assert [r.configuration.size for r in records] == [{"size_gb": 100}, {"size_gb": 100}]


def test_only_create_and_update_change_owner_size_and_state() -> None:
    """Rules 5 and 9: what a usage or delete event says of them is not read."""
    other: dict[str, Any] = {"project_id": "B", "size": LARGE, "state": "shutoff"}
    history = [
        event("03-01", "create", project_id="A", size=SMALL, state="active"),
        event("03-02", "usage", **other),
        event("03-03", "delete", **other),
    ]
    expected = Configuration("A", "active", SMALL)
    assert Model(history).intervals == [Interval(1, at("03-01"), at("03-03"), expected)]
    assert Model(history).current == Current(at("03-01"), at("03-03"), expected)


def test_equal_neighbours_join_after_zero_length_vanishes() -> None:
    """Rule 10: a change that is taken back within the same instant leaves no trace."""
    history = [
        event("03-01", "create", size=SMALL),
        event("03-05", "update", "a", size=LARGE),
        event("03-05", "update", "b", size={"vcpus": Decimal("2.0")}),
        event("03-06", "update", "c", state="unknown"),
    ]
    assert spans(history) == [(at("03-01"), None)]


def test_zero_length_lives_measure_nothing_and_the_shortest_are_exact() -> None:
    """S24: created and deleted at one instant is no record; one second and thirty are exact."""
    nothing = [event("03-02", "create"), event("03-02", "delete")]
    assert lives(nothing) == [(at("03-02"), at("03-02"), False)]
    assert minutes(nothing) == []
    for seconds in (1, 30):
        short = [event("03-02", "create"), event(f"03-02T00:00:{seconds:02d}", "delete")]
        assert [r.length_us for r in Model(short).usage(MARCH.start, MARCH.end)] == [seconds * 1_000_000]


def test_a_day_has_all_its_minutes() -> None:
    """S25: 24 hours are 1,440 minutes, since nothing is sampled."""
    assert minutes([event("03-02T08:00", "create"), event("03-03T08:00", "delete")]) == [1_440]


# Order


def test_every_order_of_arrival_gives_the_same_timeline() -> None:
    """S06: events of the 5th, 8th and 7th, in all permutations."""
    history = [
        event("02-05", "create", size=SMALL),
        event("02-08", "delete"),
        event("02-07", "update", size=LARGE),
    ]
    expected = [(at("02-05"), at("02-07")), (at("02-07"), at("02-08"))]
    assert all(spans(arrival) == expected for arrival in permutations(history))


def test_equal_timestamps_are_ordered_by_effect_and_then_by_the_bytes_of_the_id() -> None:
    """S07, rule 8: 'B' stands before 'a', and both stand after the create, however they arrive."""
    history = [
        event("03-16", "create", "z", size=SMALL),
        event("03-16", "update", "a", size={"vcpus": 1}),
        event("03-16", "update", "B", size={"vcpus": 3}),
    ]
    expected = [Interval(1, at("03-16"), None, Configuration("project", "unknown", {"vcpus": 1}))]
    assert all(Model(arrival).intervals == expected for arrival in permutations(history))


def test_a_repeated_event_changes_nothing() -> None:
    """Rule 1: the model removes duplicates by identity."""
    counted = usage("03-02", "2")
    assert pulls([event("03-01", "create"), counted, counted]) == [2]


# One instant with create and delete


def test_a_recreation_at_one_instant_leaves_the_resource_open() -> None:
    """Rule 8: open before, the order is usage, delete, create, update, and the new one is a new life."""
    history = [
        event("03-01", "create", "a", project_id="A", size=SMALL, state="active"),
        event("03-10", "usage", "b", usage={"pulls": Decimal(1)}),
        event("03-10", "delete", "c", usage={"pulls": Decimal(2)}),
        event("03-10", "create", "d", project_id="B", usage={"pulls": Decimal(4)}),
        event("03-10", "update", "e", project_id="B", size=LARGE, usage={"pulls": Decimal(8)}),
    ]
    assert lives(history) == [(at("03-01"), at("03-10"), False), (at("03-10"), None, False)]
    assert [interval.configuration for interval in Model(history).intervals] == [
        Configuration("A", "active", SMALL),
        Configuration("B", "unknown", LARGE),
    ]
    assert pulls(history) == [3, 12]
    assert anomalies(history) == []


def test_equal_configurations_of_two_lives_do_not_join() -> None:
    """Rule 10: only neighbours of one lifetime coalesce."""
    history = [
        event("03-01", "create", "a", size=SMALL),
        event("03-10", "delete", "b"),
        event("03-10", "create", "c", size=SMALL),
    ]
    assert spans(history) == [(at("03-01"), at("03-10")), (at("03-10"), None)]


def test_closed_before_an_instant_with_both_it_stays_closed() -> None:
    """Rule 8: closed before, create and delete of one instant are a life of zero length."""
    history = [event("03-10", "delete"), event("03-10", "create"), event("03-10", "update"), usage("03-10", "1")]
    assert lives(history) == [(at("03-10"), at("03-10"), False)]
    assert spans(history) == []
    assert Model(history).current == Current(at("03-10"), at("03-10"), Configuration("project", "unknown", {}))
    assert Model(history).anomalies == [Anomaly("usage_without_interval", "usage 03-10")]


def test_an_open_left_life_may_have_zero_length() -> None:
    """Rules 9 and 10: update and delete of one instant, with nothing before them."""
    history = [event("03-10", "delete"), event("03-10", "update"), event("03-11", "update")]
    assert Model(history).lifetimes == [Lifetime(1, at("03-10"), at("03-10"), open_left=True)]
    assert anomalies(history) == ["after_delete"]


# Collector beats reconciliation


def test_the_collectors_delete_replaces_a_synthetic_one_that_came_later() -> None:
    """S16: absent at the sync of 10:10, really deleted at 10:02: 8 minutes less, and a single end."""
    seen = [event("03-01", "create"), synthetic("03-20T10:10", "delete")]
    assert lives(seen) == [(at("03-01"), at("03-20T10:10"), False)]
    known = [*seen, event("03-20T10:02", "delete")]
    assert lives(known) == [(at("03-01"), at("03-20T10:02"), False)]
    assert sum(minutes(seen)) - sum(minutes(known)) == 8
    assert anomalies(known) == []


def test_the_collectors_delete_replaces_a_synthetic_one_that_came_earlier() -> None:
    """S16: a synthetic delete at 10:10 is void once the collector says 10:30."""
    history = [event("03-01", "create"), synthetic("03-20T10:10", "delete"), event("03-20T10:30", "delete")]
    assert lives(history) == [(at("03-01"), at("03-20T10:30"), False)]


@pytest.mark.parametrize("effect", ["update", "usage"])
def test_what_the_collector_sees_alive_was_not_deleted_by_a_sync(effect: str) -> None:
    """Rule 9: the collector's update or usage before any create voids a synthetic delete."""
    history = [event("03-01", "create"), synthetic("03-20", "delete"), event("03-21", effect)]
    assert lives(history) == [(at("03-01"), None, False)]
    assert anomalies(history) == []


def test_a_create_of_whatever_source_confirms_a_synthetic_delete() -> None:
    """Rule 9: what follows the next create says nothing of the delete before it."""
    for create in (event("03-21", "create"), synthetic("03-21", "create")):
        history = [event("03-01", "create"), synthetic("03-20", "delete"), create, event("03-22", "update")]
        assert lives(history) == [(at("03-01"), at("03-20"), False), (at("03-21"), None, False)]


def test_the_collectors_create_replaces_a_synthetic_one() -> None:
    """Rule 9: a synthetic create before the collector's own is void, also the usage it carries."""
    history = [
        synthetic("03-01", "create", size=SMALL, usage={"pulls": Decimal(7)}),
        event("03-02", "create", size=LARGE),
    ]
    assert lives(history) == [(at("03-02"), None, False)]
    assert pulls(history) == [None]


def test_a_void_delete_does_not_protect_a_synthetic_create() -> None:
    """Rule 9: void events count as absent when others are judged."""
    history = [
        synthetic("03-01", "create"),
        synthetic("03-02", "delete"),
        event("03-03", "usage"),
        event("03-04", "create"),
    ]
    assert lives(history) == [(at("03-04"), None, False)]
    assert anomalies(history) == ["usage_without_life"]


def test_two_syncs_that_find_the_same_resource_create_it_once() -> None:
    """S17: the same synthetic event twice is one, and another one is an update."""
    found = synthetic("03-02T10:00", "create", size=SMALL)
    assert lives([found, found]) == [(at("03-02T10:00"), None, False)]
    assert lives([found, synthetic("03-02T10:10", "create", size=SMALL)]) == [(at("03-02T10:00"), None, False)]


def test_void_is_judged_before_the_rule_for_one_instant() -> None:
    """Rule 9: what is void is gone before create and delete of one instant are ordered."""
    history = [
        event("03-01", "create", "a"),
        synthetic("03-10", "create", "b", size=LARGE),
        event("03-10", "create", "c", size=SMALL),
        synthetic("03-10", "delete", "d"),
        event("03-11", "usage", "e"),
    ]
    assert lives(history) == [(at("03-01"), None, False)]
    assert spans(history) == [(at("03-01"), at("03-10")), (at("03-10"), None)]


# Periods


def test_the_boundary_belongs_to_the_later_month() -> None:
    """S26: half-open months; what happens at 2026-04-01T00:00:00Z happens in April, and the sums add up."""
    history = [
        event("03-31", "create", size=SMALL),
        event("04-01", "update", size=LARGE),
        usage("04-01", "3"),
        event("04-02", "delete"),
    ]
    assert minutes(history) == [1_440]
    assert minutes(history, APRIL) == [1_440]
    assert pulls(history) == [None]
    assert pulls(history, APRIL) == [3]


def test_an_uninterrupted_resource_has_the_minutes_of_the_month() -> None:
    """S26, S27: 44,640 minutes in March and 41,760 in February 2028."""
    history = [event("02-01", "create")]
    assert minutes(history) == [44_640]
    assert minutes(history, BillingPeriod.parse("2028-02")) == [41_760]


def test_months_of_a_zone_are_as_long_as_they_are_there() -> None:
    """S27: March in Berlin has an hour less, October one more."""
    history = [event("02-01", "create")]
    assert minutes(history, BillingPeriod.parse("2026-03", "Europe/Berlin")) == [44_580]
    assert minutes(history, BillingPeriod.parse("2026-10", "Europe/Berlin")) == [44_700]


def test_an_instant_belongs_to_the_month_of_the_zone() -> None:
    """S28: 2026-04-01T05:00Z is still March in Los Angeles, and counted in one month only."""
    history = [event("02-01", "create"), usage("04-01T05:00", "1")]
    zone = "America/Los_Angeles"
    assert pulls(history, BillingPeriod.parse("2026-03", zone)) == [1]
    assert pulls(history, BillingPeriod.parse("2026-04", zone)) == [None]


# Counters


def test_usage_is_counted_in_the_interval_of_its_instant() -> None:
    """Rule 15: at a split it belongs to what follows, and a counter of zero is shown."""
    history = [
        event("03-01", "create", size=SMALL),
        usage("03-05", "0"),
        event("03-10", "update", size=LARGE),
        usage("03-10", "2.5"),
        usage("03-11", "0.1"),
    ]
    assert pulls(history) == [0, Decimal("2.6")]


def test_any_event_may_carry_usage() -> None:
    """Rule 5: counters are read from whatever event carries them."""
    history = [
        event("03-01", "create", usage={"pulls": Decimal(1)}),
        event("03-02", "update", usage={"pulls": Decimal(2), "pushes": Decimal(3)}),
    ]
    [record] = Model(history).usage(MARCH.start, MARCH.end)
    assert record.counters == {"pulls": 3, "pushes": 3}


def test_usage_at_the_delete_belongs_to_the_last_interval_also_at_the_end_of_the_month() -> None:
    """Rule 15: deleted at 2026-04-01T00:00:00Z, what that instant counts is March's."""
    history = [
        event("03-01", "create", size=SMALL),
        usage("04-01", "1"),
        event("04-01", "update", size=LARGE, usage={"pulls": Decimal(2)}),
        event("04-01", "delete", usage={"pulls": Decimal(4)}),
    ]
    assert pulls(history) == [7]
    assert minutes(history, APRIL) == []
    assert Model(history).current == Current(at("03-01"), at("04-01"), Configuration("project", "unknown", LARGE))


def test_usage_at_a_delete_after_the_month_is_not_counted_in_it() -> None:
    """Rule 15: an interval that reaches into April takes the usage of its delete along."""
    history = [event("03-01", "create"), event("04-02", "delete", usage={"pulls": Decimal(4)})]
    assert pulls(history) == [None]
    assert pulls(history, APRIL) == [4]


def test_usage_of_a_delete_that_closes_nothing_is_reported() -> None:
    """Rule 9: it has no interval to go to."""
    history = [
        event("03-01", "create"),
        event("03-02", "delete"),
        event("03-03", "delete", usage={"pulls": Decimal(1)}),
    ]
    assert pulls(history) == [None]
    assert anomalies(history) == ["usage_without_interval"]


def test_sums_over_splits_are_the_sum_over_the_period() -> None:
    """Rule 15: however often the month is split, nothing is lost or doubled."""
    history = [event("03-01", "create")]
    for day in range(1, 31):
        history.append(event(f"03-{day:02d}T12:00", "update", size={"vcpus": day % 3}))
        history.append(usage(f"03-{day:02d}T12:00", "0.1"))
    assert sum(value for value in pulls(history) if value) == 3
    assert sum(minutes(history)) == 44_640
    assert all(left[1] == right[0] for left, right in pairwise(spans(history)))
    assert at("03-01") + timedelta(minutes=44_640) == MARCH.end


# What holds for every history


@given(histories())
def test_nothing_counted_is_lost_or_doubled(history: Sequence[Record]) -> None:
    """Rules 9 and 15: all usage that is not void is in a month or in an anomaly."""
    model = Model(history)
    reported = {anomaly.event_id for anomaly in model.anomalies}
    carried = [record.usage or {} for record in model.history if record.event_id not in reported]
    months = [BillingPeriod.parse(f"2026-{month:02d}") for month in range(1, 13)]
    counted = [record.counters for month in months for record in model.usage(month.start, month.end)]
    for counter in ("pulls", "egress_gb"):
        assert sum(c.get(counter, Decimal(0)) for c in counted) == sum(c.get(counter, Decimal(0)) for c in carried)


@given(histories())
def test_the_intervals_of_a_life_fill_it_exactly(history: Sequence[Record]) -> None:
    """Rules 10 and 16: no gap, no overlap, no zero length, no equal neighbours."""
    model = Model(history)
    for life in model.lifetimes:
        intervals = [interval for interval in model.intervals if interval.lifetime_no == life.no]
        edges = [life.opened_at, *(interval.to_ts for interval in intervals)]
        assert [interval.from_ts for interval in intervals] == edges[:-1]
        assert edges[-1] == life.closed_at
        assert all(interval.to_ts is None or interval.from_ts < interval.to_ts for interval in intervals)
        assert all(left.configuration != right.configuration for left, right in pairwise(intervals))


@given(histories())
def test_lives_follow_each_other_and_only_the_last_is_open(history: Sequence[Record]) -> None:
    """Rule 9: a resource lives once at a time, and its current configuration is that of the last life."""
    model = Model(history)
    for earlier, later in pairwise(model.lifetimes):
        assert earlier.closed_at is not None
        assert earlier.closed_at <= later.opened_at
    if model.current is not None:
        last = model.lifetimes[-1]
        assert (model.current.created_at, model.current.deleted_at) == (last.opened_at, last.closed_at)


@given(st.data())
def test_arrival_does_not_matter(data: st.DataObject) -> None:
    """Rule 8: duplicates, batches and order of arrival leave everything as it is."""
    history = data.draw(histories())
    arrived = [record for batch in data.draw(arrivals(history)) for record, _ in batch]
    model, other = Model(history), Model(arrived)
    assert other.lifetimes == model.lifetimes
    assert other.intervals == model.intervals
    assert other.anomalies == model.anomalies
    assert other.current == model.current
