"""The picture of a resource: where its boxes lie in time, and how high they are."""

from decimal import Decimal
from zoneinfo import ZoneInfo

from pricing.documents.timeline_picture import WIDTH, Picture, picture
from tally.domain.instants import parse_instant
from tests.unit.pricing.bills_of_month import MARCH, item, period

UTC = ZoneInfo("UTC")


def drawn(*periods: dict[str, object]) -> Picture:
    """The picture of a volume in March."""
    return picture(item("v", *periods), parse_instant(MARCH["from"]), parse_instant(MARCH["to"]), UTC)


def test_neighbours_meet_and_a_hole_stays_open() -> None:
    """March in tenths: ten days are 10/31 of the width."""
    bars = drawn(
        period("03-01T00:00:00", "03-11T00:00:00"), period("03-11T00:00:00", "03-21T00:00:00"),
        period("03-31T00:00:00", "04-01T00:00:00"),
    ).states  # fmt: skip
    assert [(bar.x, bar.x + bar.width) for bar in bars] == [(0, 3225), (3225, 6451), (9677, WIDTH)]


def test_size_is_shown_beside_the_largest_of_the_month() -> None:
    """Half of it is half as high."""
    (lane,) = drawn(period(usage={"size_gb": Decimal(100)}), period(usage={"size_gb": Decimal(200)})).lanes
    assert [bar.share for bar in lane.bars] == [50, 100]


def test_a_size_of_nothing_has_no_height() -> None:
    """Although it is the largest of the month."""
    (lane,) = drawn(period(usage={"size_gb": Decimal(0)})).lanes
    assert [bar.share for bar in lane.bars] == [0]


def test_the_shortest_period_can_be_seen_but_not_written_into() -> None:
    """A microsecond has a bar without a label, and says in its title what it is."""
    (bar,) = drawn(period("03-02T00:00:00", "03-02T00:00:00.000001")).states
    assert bar.width > 0
    assert bar.label == ""
    assert bar.title.startswith("in-use")


def test_a_metric_that_a_period_lacks_leaves_a_hole_in_its_lane() -> None:
    """A counter that did not count."""
    lanes = drawn(period(usage={"size_gb": 1}), period(usage={"size_gb": 1, "egress_gb": 5})).lanes
    assert [(lane.metric, len(lane.bars)) for lane in lanes] == [("size_gb", 2), ("egress_gb", 1)]


def test_days_are_marked_in_the_zone_of_the_installation() -> None:
    """The clocks change in Berlin's March; its days begin at midnight all the same."""
    start, end = parse_instant("2026-02-28T23:00:00Z"), parse_instant("2026-03-31T22:00:00Z")
    ticks = picture(item(), start, end, ZoneInfo("Europe/Berlin")).ticks
    assert [tick.label for tick in ticks] == ["1 Mar", "8 Mar", "15 Mar", "22 Mar", "29 Mar"]
    assert ticks[0].x == 0
