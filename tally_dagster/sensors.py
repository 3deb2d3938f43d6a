"""The sensors: thin. Each asks tally.services.due what is due, and launches it once, or says what to do.

Those that only watch, and the reconciliation, run from the start; those that close or finalize months, or deliver
documents, are switched on by a person, once, in the web interface: docs/how-to/close-a-month.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from dagster import (
    AssetCheckEvaluation,
    AssetCheckResult,
    DagsterRun,
    DagsterRunStatus,
    DefaultSensorStatus,
    RunRequest,
    RunsFilter,
    SensorDefinition,
    SensorEvaluationContext,
    SensorResult,
    SkipReason,
    sensor,
)

from assets.watch import late_result, silence_result
from resources.clock import Clock
from resources.databases import Databases
from resources.installation import Installation
from resources.platforms import Platforms
from tally.services import deliver, due, reconcile
from tally.services.delivery_targets import read_targets
from tally.services.due import Late
from tally.services.handover import refuse_unlike
from tally.settings import Settings
from tally.store.database import Connection, connected
from tally_dagster import jobs

_UNDER_WAY = [
    DagsterRunStatus.QUEUED,
    DagsterRunStatus.NOT_STARTED,
    DagsterRunStatus.STARTING,
    DagsterRunStatus.STARTED,
    DagsterRunStatus.CANCELING,
]


@sensor(
    job=jobs.close_month,
    minimum_interval_seconds=300,
    default_status=DefaultSensorStatus.STOPPED,
    description="Closes each month once, when its grace is over. A close that fails is launched again by a person.",
)
def period_close(
    context: SensorEvaluationContext, databases: Databases, installation: Installation, clock: Clock
) -> list[RunRequest] | SkipReason:
    """One run per month, ever: the run key is the month."""
    with _both(databases) as (_, metering):
        months = due.closes_due(metering, installation.period_zone, installation.grace, clock.now())
    if not months:
        return SkipReason("every month whose grace is over has been closed")
    requests = [
        RunRequest(run_key=f"close {month}", partition_key=str(month), tags=_tags("period_close", str(month)))
        for month in months
    ]
    return _new(context, requests) or SkipReason(_launched_before(context, requests, "close"))


@sensor(
    job=jobs.finalize_month,
    minimum_interval_seconds=300,
    default_status=DefaultSensorStatus.STOPPED,
    description="Finalizes each closed month once nothing speaks against it. Left off, a person finalizes.",
)
def period_finalization(
    context: SensorEvaluationContext, databases: Databases, installation: Installation, clock: Clock
) -> list[RunRequest] | SkipReason:
    """One finalization per run that was closed: the run key is the run."""
    with _both(databases) as (reporting, metering):
        found = due.finalizations_due(reporting, metering, installation.period_zone, installation.grace, clock.now())
    ready = [run for run, reasons in found.items() if not reasons]
    if not ready:
        waiting = [f"{run.period}: {'; '.join(reasons)}" for run, reasons in found.items()]
        return SkipReason("\n".join(waiting) or "no closed month waits for its finalization")
    requests = [
        RunRequest(
            run_key=f"finalize {run.id}", partition_key=run.period, tags=_tags("period_finalization", run.period)
        )
        for run in ready
    ]
    return _new(context, requests) or SkipReason(_launched_before(context, requests, "finalize"))


@sensor(
    job=jobs.close_month,
    minimum_interval_seconds=600,
    default_status=DefaultSensorStatus.RUNNING,
    description="Tells what is late for finalized months, in the check nothing_is_late and here; with "
    "TALLY_CORRECTIONS=launch it also launches the correction.",
)
def late_events(context: SensorEvaluationContext, databases: Databases, installation: Installation) -> SensorResult:
    """One correction for the same news, and none while a run of the month is under way."""
    with _both(databases) as (reporting, metering):
        periods = due.late(reporting, metering)
    result = late_result(periods)
    told, cursor = _changed(context, result)
    late = [late for late in periods if late.found]
    requests = [_correction(each) for each in late if not _under_way(context, {"dagster/partition": each.period})]
    launched = _new(context, requests) if installation.launches_corrections else []
    return SensorResult(
        run_requests=launched or None,
        skip_reason=None if launched else SkipReason(result.description or "nothing is late for any finalized month"),
        cursor=cursor,
        asset_events=told,
    )


@sensor(
    job=jobs.reconcile,
    minimum_interval_seconds=60,
    default_status=DefaultSensorStatus.RUNNING,
    description="Reconciles each cloud that has an adapter every TALLY_SYNC_MINUTES, one run a cloud at a time.",
)
def reconciliation(
    context: SensorEvaluationContext, databases: Databases, clock: Clock, platforms: Platforms
) -> list[RunRequest] | SkipReason:
    """A sync that fails is tried again after the same time."""
    every, now = Settings.from_environment().sync_every, clock.now()
    with connected(databases.reporting()) as reporting:
        clouds = due.syncs(reconcile.last_syncs(reporting), platforms.factories(), every, now)
    waiting = [cloud for cloud in clouds if not _under_way(context, {"tally/cloud": cloud})]
    if not waiting:
        return SkipReason("no cloud with an adapter is due")
    slot = int(now.timestamp() // every.total_seconds())
    return [_sync(cloud, slot) for cloud in waiting]


@sensor(
    minimum_interval_seconds=600,
    default_status=DefaultSensorStatus.RUNNING,
    description="Tells of clouds whose collector has been silent for TALLY_SILENCE_HOURS, in the check "
    "no_cloud_is_silent and here.",
)
def ingest_silence(context: SensorEvaluationContext, databases: Databases, clock: Clock) -> SensorResult:
    """Launches nothing: a person looks at the collector."""
    with connected(databases.reporting()) as reporting:
        silent = due.silent(reporting, Settings.from_environment().silence, clock.now())
    result = silence_result(silent)
    told, cursor = _changed(context, result)
    return SensorResult(
        skip_reason=SkipReason(result.description or "every cloud that has resources sends events"),
        cursor=cursor,
        asset_events=told,
    )


@sensor(
    job=jobs.deliver_documents,
    minimum_interval_seconds=300,
    default_status=DefaultSensorStatus.STOPPED,
    description="Delivers the documents of finalized months to the targets of TALLY_DELIVERY_TARGETS.",
)
def delivery(
    context: SensorEvaluationContext, databases: Databases, clock: Clock
) -> RunRequest | SkipReason:
    """One run at a time, as long as a target lacks something and is due for another attempt."""
    destinations = read_targets(Settings.from_environment().delivery_targets)
    with connected(databases.metering()) as metering:
        waiting = deliver.due(metering, destinations, clock.now())
    if not waiting:
        return SkipReason("no target waits for documents" if destinations else "TALLY_DELIVERY_TARGETS names none")
    if _under_way(context, {"tally/kind": "deliver"}):
        return SkipReason(f"{', '.join(waiting)}: a delivery is under way")
    return RunRequest(tags={"tally/actor": "sensor:delivery"})


SENSORS: list[SensorDefinition] = [
    period_close, period_finalization, late_events, reconciliation, ingest_silence, delivery,
]


@contextmanager
def _both(databases: Databases) -> Iterator[tuple[Connection, Connection]]:
    """Both databases, to tell what is due; where one was restored from a backup the tick fails, and says so.

    A run would be refused anyway, but would have used up its key.
    """
    with connected(databases.reporting()) as reporting, connected(databases.metering()) as metering:
        refuse_unlike(reporting, metering)
        yield reporting, metering


def _new(context: SensorEvaluationContext, requests: Sequence[RunRequest]) -> list[RunRequest]:
    """Those that were not launched before: Dagster would leave the others out without a word."""
    return [request for request in requests if _former(context, request) is None]


def _former(context: SensorEvaluationContext, request: RunRequest) -> DagsterRun | None:
    runs = context.instance.get_runs(RunsFilter(tags={"dagster/run_key": str(request.run_key)}), limit=1)
    return runs[0] if runs else None


def _launched_before(context: SensorEvaluationContext, requests: Sequence[RunRequest], command: str) -> str:
    """What became of each request, and what a person does: a restored database asks for what there was, too."""
    told = []
    for request in requests:
        if (run := _former(context, request)) is not None:
            again = f"; look at it, then call tally {command} {request.partition_key}" if run.is_finished else ""
            told.append(f"{request.partition_key}: launched once, by run {run.run_id}, now {run.status.value}{again}")
    return "\n".join(told)


def _correction(late: Late) -> RunRequest:
    tags = _tags("late_events", late.period)
    return RunRequest(run_key=f"correct {late.run.id}: {late.news}", partition_key=late.period, tags=tags)


def _sync(cloud: str, slot: int) -> RunRequest:
    return RunRequest(
        run_key=f"sync {cloud} {slot}",
        run_config={"ops": {"sync_cloud": {"config": {"cloud": cloud}}}},
        tags={"tally/cloud": cloud, "tally/actor": "sensor:reconciliation"},
    )


def _tags(name: str, period: str) -> dict[str, str]:
    return {"tally/actor": f"sensor:{name}", "tally/period": period}


def _under_way(context: SensorEvaluationContext, tags: Mapping[str, str]) -> bool:
    return bool(context.instance.get_runs(RunsFilter(tags=dict(tags), statuses=_UNDER_WAY), limit=1))


def _changed(context: SensorEvaluationContext, result: AssetCheckResult) -> tuple[list[AssetCheckEvaluation], str]:
    """The verdict, if it is not that of the last tick, and the cursor that keeps it for the next."""
    now = result.description or "nothing"  # which Dagster would not keep if it were empty
    return [] if now == context.cursor else [_evaluation(result)], now


def _evaluation(result: AssetCheckResult) -> AssetCheckEvaluation:
    assert result.asset_key is not None
    assert result.check_name is not None
    return AssetCheckEvaluation(
        asset_key=result.asset_key,
        check_name=result.check_name,
        passed=result.passed,
        metadata=result.metadata,
        severity=result.severity,
        description=result.description,
    )
