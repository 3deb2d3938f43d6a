"""What a run reads: events and projection, copied in one snapshot, sampled counters, and the prices of the month."""

from collections.abc import Iterator

from dagster import AssetExecutionContext, AssetSpec, MaterializeResult, asset, multi_asset

from assets.partitions import MONTHS, requested
from assets.steps import METERING_POOL, retried
from resources.clock import Clock
from resources.counters import SampledCounters
from resources.databases import Metering
from resources.installation import Installation
from tally.domain.instants import format_instant
from tally.domain.run import Run
from tally.services import runs
from tally.services.pricing import prices_for
from tally.store.metering.counters import summary_of_run
from tally.store.metering.load import count_loaded


@multi_asset(
    name="load",
    specs=[
        AssetSpec(
            "raw_events",
            description="raw.events: all events that have arrived, of whatever month, copied once and "
            "stamped with the load that brought them. Begins the run of the month, which reads up to this load.",
            kinds={"postgres"},
        ),
        AssetSpec(
            "current_resources",
            description="raw.current_resources: each resource as the reporting database folds it while events come in, "
            "copied in the same snapshot as the events. A check compares it with the timelines.",
            kinds={"postgres"},
        ),
        AssetSpec(
            "counters",
            description="raw.counter_increments: what sampled counters gained, fetched from VictoriaMetrics for this "
            "run, which keeps it. Nothing is fetched where no VictoriaMetrics is named.",
            kinds={"postgres"},
        ),
    ],
    partitions_def=MONTHS,
    group_name="load",
    pool=METERING_POOL,
)
def load(
    context: AssetExecutionContext,
    metering: Metering,
    installation: Installation,
    clock: Clock,
    sampled_counters: SampledCounters,
) -> Iterator[MaterializeResult[None]]:
    """Copy what has arrived, fetch what was sampled, and begin a run of the month."""
    period = installation.period(context.partition_key)
    counters = sampled_counters.counters(context.log.info)
    with retried(context), metering.reporting() as reporting:
        run = runs.start(
            reporting, metering.connection, period, clock.now, counters, requested(context.run.tags)
        )
    context.instance.add_run_tags(context.run.run_id, _tags(run))
    counts = count_loaded(metering.connection, run.load_id)
    yield MaterializeResult(
        asset_key="raw_events",
        metadata={
            "run_id": str(run.id),
            "load_id": run.load_id,
            "events_loaded": counts.new_events,
            "dagster/row_count": counts.events,
            "registry_version": run.registry_version,
            "metered_to": format_instant(run.metered_to),
            "preliminary": run.preliminary,
            "inputs_hash": str(run.inputs_hash),
        },
    )
    yield MaterializeResult(
        asset_key="current_resources",
        metadata={"load_id": run.load_id, "dagster/row_count": counts.resources},
    )
    fetched = summary_of_run(metering.connection, run.id)
    yield MaterializeResult(
        asset_key="counters",
        metadata={"sources": fetched.sources, "samples": fetched.samples, "series": fetched.series}
        | ({"content_hash": fetched.content_hash} if fetched.content_hash else {})
        | ({"failed": "; ".join(fetched.failures)} if fetched.failures else {}),
    )


def _tags(run: Run) -> dict[str, str]:
    """What a person filters runs by, whoever launched them."""
    regular = "month_to_date" if run.preliminary else "close"
    kind = "correction" if run.kind == "correction" else regular
    return {"tally/period": run.period, "tally/kind": kind, "tally/run": str(run.id)}


@asset(
    partitions_def=MONTHS,
    group_name="load",
    kinds={"yaml"},
    pool=METERING_POOL,
    description="ledger.prices: the price version that holds for the month. A version is a file in pricing/models, "
    "never edited once it is loaded. Several, where prices change inside the month.",
)
def prices(context: AssetExecutionContext, metering: Metering, installation: Installation) -> MaterializeResult[None]:
    """Name the price version of the month."""
    with retried(context):
        parts = prices_for(metering.connection, installation.period(context.partition_key))
    versions = [part.version for part in parts]
    return MaterializeResult(
        metadata={
            "pricing_version": ", ".join(version.version for version in versions),
            "pricing_hash": ", ".join(version.content_hash for version in versions),
            "currency": versions[0].currency,
            "dagster/row_count": sum(len(version.prices) for version in versions),
        }
    )
