"""What is due is decided by the clock, the grace and what there is: nothing here needs a database."""

from dataclasses import replace
from datetime import timedelta
from uuid import UUID

import pytest

from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.due import Late, closes, current_period, last_closable, syncs
from tally.store.reporting.syncs import LastSync

GRACE = timedelta(hours=72)


def run(period: str, started_at: str, status: str = "completed") -> Run:
    month = BillingPeriod.parse(period)
    started = parse_instant(started_at)
    values = dict.fromkeys(Run.__dataclass_fields__) | {
        "id": UUID(int=1),
        "period": period,
        "period_from": month.start,
        "period_to": month.end,
        "kind": "regular",
        "status": status,
        "started_at": started,
    }
    return Run(**values)


def due(now: str, *live: Run, zone: str = "UTC") -> list[str]:
    return [str(period) for period in closes(live, zone, GRACE, parse_instant(now))]


@pytest.mark.parametrize(
    ("now", "zone", "period"),
    [
        ("2026-04-03T23:59:59.999999Z", "UTC", "2026-02"),
        ("2026-04-04T00:00:00Z", "UTC", "2026-03"),
        ("2026-04-03T22:00:00Z", "Europe/Berlin", "2026-03"),
        ("2026-04-03T21:59:59Z", "Europe/Berlin", "2026-02"),
        ("2026-01-04T00:00:00Z", "UTC", "2025-12"),
    ],
)
def test_a_period_can_be_closed_from_the_very_end_of_its_grace(now: str, zone: str, period: str) -> None:
    """The end of the month is that of the installation's zone, and the grace counts in hours from there."""
    assert str(last_closable(parse_instant(now), zone, GRACE)) == period


def test_a_grace_that_is_longer_than_a_month_goes_back_further() -> None:
    """With 40 days, March is closed in the middle of May."""
    assert str(last_closable(parse_instant("2026-05-10T00:00:00Z"), "UTC", timedelta(days=40))) == "2026-02"


def test_the_running_month_is_that_of_the_zone() -> None:
    """At the turn of the month, Berlin is ahead."""
    assert str(current_period(parse_instant("2026-03-31T22:30:00Z"), "Europe/Berlin")) == "2026-04"
    assert str(current_period(parse_instant("2026-03-31T22:30:00Z"), "UTC")) == "2026-03"


def test_a_new_installation_begins_with_the_newest_month_that_can_be_closed() -> None:
    """What was before Tally is not billed."""
    assert due("2026-05-10T00:00:00Z") == ["2026-04"]


def test_months_that_were_missed_are_closed_in_their_order() -> None:
    """Whoever comes back after two months gets both."""
    assert due("2026-06-10T00:00:00Z", run("2026-03", "2026-04-04T00:01:00Z", "finalized")) == ["2026-04", "2026-05"]


def test_a_close_before_the_end_of_the_grace_does_not_count() -> None:
    """Events that the grace waits for arrive after it; so does a month that was only looked at while it ran."""
    assert due("2026-04-04T00:00:00Z", run("2026-03", "2026-04-03T23:00:00Z")) == ["2026-03"]
    assert due("2026-04-04T00:00:00Z", run("2026-03", "2026-03-12T00:00:00Z")) == ["2026-03"]


def test_a_month_that_was_closed_by_hand_after_its_grace_does_not_wait() -> None:
    """Nor does a finalized one, whenever it was closed."""
    assert due("2026-04-10T00:00:00Z", run("2026-03", "2026-04-04T00:00:00Z")) == []
    assert due("2026-04-10T00:00:00Z", run("2026-03", "2026-04-01T00:00:00Z", "finalized")) == []


def test_a_run_of_the_running_month_alone_does_not_reach_back() -> None:
    """An installation that begins in April never closes March."""
    assert due("2026-04-10T00:00:00Z", run("2026-04", "2026-04-09T00:00:00Z")) == []


def test_a_cloud_is_reconciled_when_its_last_sync_is_old_enough_and_its_platform_has_an_adapter() -> None:
    """One that was never reconciled comes at once; whether the last sync went well does not matter."""
    now = parse_instant("2026-03-10T12:00:00Z")

    def last(cloud: str, platform: str, started_at: str | None, status: str | None = "completed") -> LastSync:
        started = parse_instant(started_at) if started_at else None
        return LastSync(cloud, platform, status if started else None, started, None, (), None)

    clouds = [
        last("never", "openstack", None),
        last("old", "openstack", "2026-03-10T11:50:00Z"),
        last("failed", "openstack", "2026-03-10T11:50:00Z", "failed"),
        last("fresh", "openstack", "2026-03-10T11:50:01Z"),
        last("foreign", "harbor", None),
    ]
    assert syncs(clouds, {"openstack"}, timedelta(minutes=10), now) == ["never", "old", "failed"]


def test_news_are_told_in_words() -> None:
    """Loaded and waiting events are the same to a person."""
    nothing = Late("2026-03", run("2026-03", "2026-04-04T00:00:00Z"), 0, 0, 0)
    assert (nothing.found, nothing.news) == (False, "nothing")
    assert replace(nothing, loaded=1, waiting=2).news == "3 late event(s)"
    assert replace(nothing, waiting=1, relations=1).found
    assert replace(nothing, relations=1).news == "1 late version(s) of relations between projects"
