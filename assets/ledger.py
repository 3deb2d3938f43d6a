"""What a run writes: usage and rated records, bills, and in the end its own completion; then finalization."""

from dagster import AssetExecutionContext, AssetKey, MaterializeResult, asset

from assets.partitions import MONTHS, running
from resources.clock import Clock
from resources.databases import Metering
from resources.installation import Installation
from tally.domain.instants import format_instant
from tally.services import finalize, runs
from tally.services.bills import make_bills


@asset(
    deps=[AssetKey("usage"), AssetKey("findings")],
    partitions_def=MONTHS,
    group_name="ledger",
    kinds={"postgres"},
    description="Usage records of the run, written only after every invariant of usage holds, and its findings.",
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
    description="Rated records of the run: one per priced dimension of each usage record, exact and rounded once.",
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
    description="One document per billed project; an attributed project is billed inside the bill of its root.",
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
    description="The run with all checks passed: from here on it is the live one of its month.",
)
def completed_run(
    context: AssetExecutionContext, metering: Metering, installation: Installation, clock: Clock
) -> MaterializeResult[None]:
    """Make the run the live one of its month."""
    run = running(context, metering, installation)
    with runs.making(metering.connection, run):
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
        }
    )


@asset(
    deps=[completed_run],
    partitions_def=MONTHS,
    group_name="bills",
    kinds={"postgres"},
    description="The month, closed for good: its records never change again. Refused while anything speaks against it.",
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
