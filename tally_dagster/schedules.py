"""The schedule of the running month. Months that are over are closed by the sensor period_close."""

from dagster import DefaultScheduleStatus, RunRequest, ScheduleDefinition, ScheduleEvaluationContext, schedule

from tally.services.due import current_period
from tally.settings import Settings
from tally_dagster import jobs


def month_to_date() -> ScheduleDefinition:
    """A preliminary run of the running month, every morning of the installation's zone; off until a person wants it."""
    zone = Settings.from_environment().zone

    @schedule(
        job=jobs.close_month,
        cron_schedule="0 6 * * *",
        execution_timezone=zone,
        default_status=DefaultScheduleStatus.STOPPED,
        name="month_to_date",
        description="Meters the running month up to now: a preliminary run, to be looked at, never finalized.",
    )
    def to_date(context: ScheduleEvaluationContext) -> RunRequest:
        month = str(current_period(context.scheduled_execution_time, zone))
        tags = {"tally/actor": "schedule:month_to_date", "tally/period": month}
        return RunRequest(partition_key=month, tags=tags)

    return to_date
