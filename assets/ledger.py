"""What a run writes: usage and rated records, bills, and in the end its own completion; and what finalization makes."""

from dagster import AssetExecutionContext, AssetKey, AssetSpec, MaterializeResult, asset

from assets.completeness import completeness_metadata
from assets.freshness import monthly_close
from assets.partitions import MONTHS, running
from assets.steps import METERING_POOL, making
from resources.clock import Clock
from resources.databases import Metering
from resources.installation import Installation
from tally.services import completeness, runs
from tally.services.bills import make_bills


@asset(
    deps=[AssetKey("usage"), AssetKey("findings")],
    partitions_def=MONTHS,
    pool=METERING_POOL,
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
    with making(context, metering, run):
        count = runs.write_usage(metering.connection, run)
    return MaterializeResult(metadata={"run_id": str(run.id), "dagster/row_count": count})


@asset(
    deps=[AssetKey("rating"), usage_records],
    partitions_def=MONTHS,
    pool=METERING_POOL,
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
    with making(context, metering, run):
        count = runs.write_rated(metering.connection, run)
    return MaterializeResult(
        metadata={
            "run_id": str(run.id),
            "dagster/row_count": count,
            "pricing_version": ", ".join(run.price_versions),
            "pricing_hash": ", ".join(run.price_versions.values()),
        }
    )


@asset(
    deps=[rated_records],
    partitions_def=MONTHS,
    pool=METERING_POOL,
    group_name="bills",
    kinds={"json"},
    description="ledger.bills: one JSON document per project that pays. A project that another one pays for is inside "
    "that one's bill.",
)
def bills(context: AssetExecutionContext, metering: Metering, installation: Installation) -> MaterializeResult[None]:
    """Make the bills of the run."""
    run = running(context, metering, installation)
    with making(context, metering, run):
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
    pool=METERING_POOL,
    group_name="bills",
    kinds={"postgres"},
    freshness_policy=monthly_close(),
    description="ledger.runs: the run, with every check passed. From here on it is the live one of its month, and the "
    "former one is superseded.",
)
def completed_run(
    context: AssetExecutionContext, metering: Metering, installation: Installation, clock: Clock
) -> MaterializeResult[None]:
    """Make the run the live one of its month."""
    run = running(context, metering, installation)
    with making(context, metering, run):
        with metering.reporting() as reporting:
            completeness.record(reporting, metering.connection, run, installation.policy())
        completed = runs.complete(metering.connection, run, clock.now)
    return MaterializeResult(
        metadata={
            "run_id": str(completed.id),
            "load_id": completed.load_id,
            "registry_version": completed.registry_version,
            "pricing_version": ", ".join(completed.price_versions),
            "inputs_hash": str(completed.inputs_hash),
            "outputs_hash": str(completed.outputs_hash),
            "preliminary": completed.preliminary,
            **completeness_metadata(completeness.kept_report(metering.connection, completed, clock.now())),
        }
    )


# Not executable: so nothing that materializes "all" makes a month immutable by the way. The job finalize_month does.
finalized_period = AssetSpec(
    "finalized_period",
    deps=[completed_run],
    partitions_def=MONTHS,
    group_name="bills",
    kinds={"postgres"},
    description="The live run, finalized: the records of the month never change again. Made by the job finalize_month "
    "alone, which is refused before the end of the grace, and while blocking findings or events that the run does not "
    "know are open. Later materializations of the month are corrections.",
)
