"""A policy judges findings by kind and cloud; a waiver lets a kind pass for as long as it holds."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest

from tally.domain.completeness import Found, Group, Line, Policy, Rule, Spans, Waiver, grouped, judged

NOW = datetime(2026, 5, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
POLICY = Policy(
    {"anomaly": Rule("block", above=2), "cycle": Rule("warn"), "unlisted_type": Rule("ignore")},
    events=8 * HOUR,
    sync=2 * HOUR,
    platforms={"harbor": Spans(events=100 * HOUR)},
    clouds={"quiet": Spans(sync=50 * HOUR)},
)


def found(kind: str = "anomaly", cloud: str = "os-1", subject: str = "i-1", **fields: object) -> Found:
    return Found(kind, cloud, "openstack", "instance", subject, "d", **fields)  # type: ignore[arg-type]


def waiver(kind: str = "anomaly", cloud: str = "", until: datetime | None = None) -> Waiver:
    return Waiver(1, "2026-03", kind, cloud, "r", "clerk", until, NOW)


def line(*waivers: Waiver, cloud: str = "os-1", action: str = "block") -> Line:
    return judged(Group("anomaly", cloud, 1, (), None, 1), action, waivers, NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("kind", "count", "action"),
    [("anomaly", 2, "warn"), ("anomaly", 3, "block"), ("cycle", 99, "warn"), ("unlisted_type", 99, "ignore")],
)
def test_what_blocks_does_so_above_its_number(kind: str, count: int, action: str) -> None:
    """The number is exclusive, and what does not reach it is still told."""
    assert POLICY.action(kind, count) == action


def test_a_kind_that_no_policy_knows_blocks() -> None:
    """Rule 19: what nobody has decided about is no reason to go on."""
    assert POLICY.action("novelty", 1) == "block"


def test_the_span_of_a_cloud_wins_over_that_of_its_platform() -> None:
    """And what neither says holds for all, each for itself."""
    assert (POLICY.events_span("harbor", "quiet"), POLICY.sync_span("harbor", "quiet")) == (100 * HOUR, 50 * HOUR)
    assert (POLICY.events_span("openstack", "os-1"), POLICY.sync_span("openstack", "os-1")) == (8 * HOUR, 2 * HOUR)


def test_findings_are_added_up_by_kind_and_cloud() -> None:
    """With a few examples, the money that can be told, and the number of those of which it cannot."""
    money = {"count": 2, "at_risk": Decimal("1.50")}
    groups = grouped([found(subject=f"i-{n}") for n in range(5)] + [found(**money), found(cloud="os-2", **money)])
    assert [(g.kind, g.cloud, g.count, len(g.examples), g.at_risk, g.untold) for g in groups] == [
        ("anomaly", "os-1", 7, 3, Decimal("1.50"), 5),
        ("anomaly", "os-2", 2, 1, Decimal("1.50"), 0),
    ]
    assert groups[0].examples[0] == "openstack instance i-0: d"


def test_money_that_cannot_be_told_is_not_zero() -> None:
    """Nothing is said where nothing is known."""
    assert [group.at_risk for group in grouped([found()])] == [None]


def test_a_waiver_lets_its_kind_pass_in_every_cloud_or_in_one() -> None:
    """Not another kind, and not another cloud."""
    assert line().blocks
    assert not line(waiver()).blocks
    assert not line(waiver(cloud="os-1")).blocks
    assert line(waiver(cloud="os-2"), waiver("cycle")).blocks


def test_a_waiver_of_one_cloud_is_none_for_what_has_no_cloud() -> None:
    """Such as what is unpriced: that holds everywhere."""
    assert line(waiver(cloud="os-1"), cloud="").blocks


def test_an_expired_waiver_no_longer_waives() -> None:
    """It holds before its end, not at it; one that still holds counts beside it."""
    over, holding = waiver(until=NOW), waiver(until=NOW + timedelta(microseconds=1))
    assert line(over).blocks
    assert line(over, holding).waiver is holding


def test_what_does_not_block_needs_no_waiver() -> None:
    """So none is shown as used."""
    assert line(waiver(), action="warn") == Line("anomaly", "os-1", 1, (), None, 1, "warn")
