"""The jobs: what is materialized together, in this order, holding the metering lock from start to end."""

from dagster import AssetSelection, define_asset_job, in_process_executor

_FINALIZED = AssetSelection.assets("finalized_period")

close_month = define_asset_job(
    "close_month",
    selection=AssetSelection.all() - _FINALIZED,
    executor_def=in_process_executor,
    description="Meter, rate and bill a month. It replaces the former run of the month; until the month is over the "
    "run is preliminary.",
)

finalize_month = define_asset_job(
    "finalize_month",
    selection=_FINALIZED,
    executor_def=in_process_executor,
    description="Make the live run of a month immutable, after its grace, unless anything speaks against it.",
)
