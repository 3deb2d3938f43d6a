"""A close that is overdue shows as stale, from a day after the end of the grace."""

import asyncio
from datetime import timedelta

import pytest
from dagster import DagsterInstance, Definitions, asset, materialize
from dagster._core.definitions.freshness import FreshnessState
from dagster._core.definitions.freshness_evaluator import CronFreshnessPolicyEvaluator
from dagster._core.loader import LoadingContextForTest
from dagster._core.test_utils import freeze_time

from assets.freshness import deadline_day, monthly_close
from tally.domain.instants import parse_instant


@pytest.mark.parametrize(("hours", "day"), [(0, 2), (72, 5), (60, 5), (73, 6)])
def test_the_deadline_is_the_first_midnight_a_day_after_the_grace(hours: int, day: int) -> None:
    """Three days of grace end as the fourth begins; one more day is given."""
    assert deadline_day(timedelta(hours=hours)) == day


def test_a_run_of_the_grace_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run has to be of after the grace: 36 hours before a deadline on the fifth is noon of the third."""
    monkeypatch.setenv("TALLY_GRACE_HOURS", "60")
    policy = monthly_close()
    assert policy is not None
    assert (policy.deadline_cron, policy.lower_bound_delta) == ("0 0 5 * *", timedelta(hours=36))


def test_a_grace_of_a_month_has_no_deadline_in_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no day of a month for it."""
    monkeypatch.setenv("TALLY_GRACE_HOURS", "720")
    assert monthly_close() is None


@pytest.mark.parametrize(
    ("closed", "now", "state"),
    [
        ("2026-04-03T23:00:00Z", "2026-04-05T00:30:00Z", FreshnessState.FAIL),
        ("2026-04-04T01:00:00Z", "2026-04-05T00:30:00Z", FreshnessState.PASS),
        ("2026-04-04T01:00:00Z", "2026-05-04T23:30:00Z", FreshnessState.PASS),
        ("2026-04-04T01:00:00Z", "2026-05-05T00:30:00Z", FreshnessState.FAIL),
        ("2026-05-06T00:00:00Z", "2026-05-06T00:30:00Z", FreshnessState.PASS),
    ],
)
def test_dagster_judges_a_close_by_its_deadline(closed: str, now: str, state: FreshnessState) -> None:
    """By the evaluation that its daemon makes: with 72 hours of grace, on the fifth at midnight, until it is closed."""

    @asset(freshness_policy=monthly_close())
    def completed_run() -> None:
        """What a close makes in the end."""

    node = Definitions([completed_run]).resolve_asset_graph().get(completed_run.key)
    with DagsterInstance.ephemeral() as instance:
        with freeze_time(parse_instant(closed)):
            materialize([completed_run], instance=instance)
        with freeze_time(parse_instant(now)):
            judged = CronFreshnessPolicyEvaluator().evaluate_freshness(LoadingContextForTest(instance), node)
            assert asyncio.run(judged) is state
