"""A close that is overdue shows as stale, from a day after the end of the grace."""

from datetime import timedelta

import pytest

from assets.freshness import deadline_day, monthly_close


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
