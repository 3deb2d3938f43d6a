"""The step that makes a month immutable. Whether it may is decided by tally.services.finalize."""

from dagster import AssetMaterialization, OpExecutionContext, op

from assets.completeness import completeness_metadata
from assets.steps import METERING_POOL, retried
from resources.clock import Clock
from resources.databases import Metering
from resources.installation import Installation
from tally.domain.instants import format_instant
from tally.services import completeness, finalize


@op(pool=METERING_POOL, description="Finalize the live run of the month, or refuse with every reason against it.")
def finalized_period(
    context: OpExecutionContext, metering: Metering, installation: Installation, clock: Clock
) -> None:
    """Finalize the live run of the month, and tell Dagster that its asset finalized_period is made."""
    period = installation.period(context.partition_key)
    context.instance.add_run_tags(context.run.run_id, {"tally/period": str(period)})
    with retried(context), metering.reporting() as reporting:
        policy = installation.policy()
        run = finalize.finalize(reporting, metering.connection, period, installation.grace, clock.now, policy)
    context.log_event(
        AssetMaterialization(
            "finalized_period",
            partition=context.partition_key,
            metadata={
                "run_id": str(run.id),
                "outputs_hash": str(run.outputs_hash),
                "finalized_at": format_instant(run.finalized_at or clock.now()),
                "actor": context.run.tags.get("tally/actor", ""),
                **completeness_metadata(completeness.kept_report(metering.connection, run, clock.now())),
            },
        )
    )
