"""Until when a month has to be closed, so that Dagster shows a close that is overdue."""

from datetime import timedelta
from math import ceil

from dagster import FreshnessPolicy

from tally.settings import Settings

_A_DAY = timedelta(days=1)
_LAST_DAY = 28  # that every month has


def monthly_close() -> FreshnessPolicy | None:
    """A day after the grace, at midnight, the month is closed by a run of after it; None if a grace is a month long."""
    settings = Settings.from_environment()
    day = deadline_day(settings.grace)
    if day > _LAST_DAY:
        return None
    within = timedelta(days=day - 1) - settings.grace
    return FreshnessPolicy.cron(f"0 0 {day} * *", lower_bound_delta=within, timezone=settings.zone)


def deadline_day(grace: timedelta) -> int:
    """The day of a month at whose beginning the month before has to be closed: one whole day after the grace."""
    return ceil(grace / _A_DAY) + 2
