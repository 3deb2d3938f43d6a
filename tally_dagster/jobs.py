"""The jobs: what is materialized together, in this order, holding the metering lock from start to end."""

from dagster import AssetCheckKey, AssetKey, AssetSelection, define_asset_job, in_process_executor, job

from assets.partitions import MONTHS
from assets.watch import NO_SILENCE, NOTHING_LATE
from tally_dagster.delivery import delivered_documents
from tally_dagster.finalization import finalized_period
from tally_dagster.reconciliation import sync_cloud

_WATCHING = AssetSelection.checks(
    AssetCheckKey(AssetKey("raw_events"), NO_SILENCE), AssetCheckKey(AssetKey("finalized_period"), NOTHING_LATE)
)

close_month = define_asset_job(
    "close_month",
    selection=AssetSelection.all() - _WATCHING,
    executor_def=in_process_executor,
    description="Meter, rate and bill a month. It replaces the former run of the month; until the month is over the "
    "run is preliminary. Of a finalized month it is a correction.",
)


@job(partitions_def=MONTHS, executor_def=in_process_executor, tags={"tally/kind": "finalize"})
def finalize_month() -> None:
    """Make the live run of a month immutable, after its grace, unless anything speaks against it."""
    finalized_period()


@job(executor_def=in_process_executor, tags={"tally/kind": "deliver"})
def deliver_documents() -> None:
    """Deliver the documents of finalized months; the sensor delivery launches it when something is due."""
    delivered_documents()


@job(executor_def=in_process_executor, tags={"tally/kind": "reconcile"})
def reconcile() -> None:
    """Reconcile one cloud with what its platform lists; the sensor reconciliation launches it for each."""
    sync_cloud()
