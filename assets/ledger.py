"""What a run writes: usage and rated records, bills, and in the end its own completion; then finalization."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from assets.completeness import completeness_metadata
from assets.partitions import MONTHS, running
from resources.clock import Clock
from resources.databases import Metering
from resources.installation import Installation
from tally.domain.instants import format_instant
from tally.services import completeness, finalize, runs
from tally.services.bills import make_bills


@asset(
    deps=[AssetKey("usage"), AssetKey("findings")],
    partitions_def=MONTHS,
    group_name="ledger",
    kinds={"postgres"},
    description="ledger.usage_records: the usage of the run, written only after every check of usage has passed, and "
    "ledger.findings.",
)
def usage_records(
    context: AssetExecutionContext, metering: Metering, installation: Installation
) -> MaterializeResult[None]:
    """Write the usage of the run into the ledger."""
    run = running(context, metering, installation)
    with runs.making(metering.connection, run):
        count = runs.write_usage(metering.connection, run)
    return MaterializeResult(metadata={"run_id": str(run.id), "dagster/row_count": count})


@asset(
    deps=[AssetKey("rating"), usage_records],
    partitions_def=MONTHS,
    group_name="ledger",
    kinds={"postgres"},
    description="ledger.rated_records: the costs of the run, one row per priced dimension of each usage record, "
    "written only after every check of rating has passed.",
)
def rated_records(
    context: AssetExecutionContext, metering: Metering, installation: Installation
) -> MaterializeResult[None]:
    """Write the costs of the run into the ledger."""
    run = running(context, metering, installation)
    with runs.making(metering.connection, run):
        count = runs.write_rated(metering.connection, run)
    return MaterializeResult(
        metadata={
            "run_id": str(run.id),
            "dagster/row_count": count,
            "pricing_version": str(run.pricing_version),
            "pricing_hash": str(run.pricing_hash),
        }
    )


@asset(
    deps=[rated_records],
    partitions_def=MONTHS,
    group_name="bills",
    kinds={"json"},
    description="ledger.bills: one JSON document per project that pays. A project that another one pays for is inside "
    "that one's bill.",
)
def bills(context: AssetExecutionContext, metering: Metering, installation: Installation) -> MaterializeResult[None]:
    """Make the bills of the run."""
    run = running(context, metering, installation)
    with runs.making(metering.connection, run):
        made = make_bills(metering.connection, run)
    return MaterializeResult(
        metadata={
            "run_id": str(run.id),
            "dagster/row_count": made.bills,
            "projects": made.projects,
            "total": f"{made.total} {made.currency}",
        }
    )


@asset(
    deps=[bills],
    partitions_def=MONTHS,
    group_name="bills",
    kinds={"postgres"},
    description="ledger.runs: the run, with every check passed. From here on it is the live one of its month, and the "
    "former one is superseded.",
)
def completed_run(
    context: AssetExecutionContext, metering: Metering, installation: Installation, clock: Clock
) -> MaterializeResult[None]:
    """Make the run the live one of its month."""
    run = running(context, metering, installation)
    with runs.making(metering.connection, run):
        with metering.reporting() as reporting:
            completeness.record(reporting, metering.connection, run, installation.policy())
        completed = runs.complete(metering.connection, run, clock.now)
    return MaterializeResult(
        metadata={
            "run_id": str(completed.id),
            "load_id": completed.load_id,
            "registry_version": completed.registry_version,
            "pricing_version": str(completed.pricing_version),
            "inputs_hash": str(completed.inputs_hash),
            "outputs_hash": str(completed.outputs_hash),
            "preliminary": completed.preliminary,
            **completeness_metadata(completeness.kept_report(metering.connection, completed, clock.now())),
        }
    )


@asset(
    deps=[completed_run],
    partitions_def=MONTHS,
    group_name="bills",
    kinds={"postgres"},
    description="The live run, finalized: the records of the month never change again. Not part of close_month. "
    "Refused before the end of the grace, and while blocking findings or events that the run does not know are open.",
)
def finalized_period(
    context: AssetExecutionContext, metering: Metering, installation: Installation, clock: Clock
) -> MaterializeResult[None]:
    """Finalize the live run of the month."""
    period = installation.period(context.partition_key)
    with metering.reporting() as reporting:
        run = finalize.finalize(reporting, metering.connection, period, installation.grace, clock.now)
    return MaterializeResult(
        metadata={
            "run_id": str(run.id),
            "outputs_hash": str(run.outputs_hash),
            "finalized_at": format_instant(run.finalized_at or clock.now()),
            "actor": context.run.tags.get("tally/actor", ""),
        }
    )
