"""The step that reconciles one cloud. How that is done belongs to tally.services.reconcile."""

from typing import Any

from dagster import Bool, Failure, Field, MarkdownMetadataValue, MetadataValue, OpExecutionContext, String, op

from assets.steps import retried
from resources.clock import Clock
from resources.databases import Databases
from resources.platforms import Platforms
from tally.services.adapters import adapter_of
from tally.services.reconcile import SyncReport, sync
from tally.settings import Settings
from tally.store.database import connected
from tally.store.reporting.syncs import ListingRow

# Values, and nothing else: the fields of a Config would also take {env: NAME}, and an error that names the cloud would
# tell the value of any variable to whoever launches a run, such as the URL of a database with its password.
_CLOUD_TO_SYNC = {
    "cloud": Field(String, description="Name of a registered cloud whose platform has an adapter"),
    "accept_deletions": Field(
        Bool,
        default_value=False,
        description="Close however many resources the listing no longer has; it is audited",
    ),
}


@op(
    config_schema=_CLOUD_TO_SYNC,
    description="List what the platform has, compare it with what the events tell, and write what they do not.",
)
def sync_cloud(context: OpExecutionContext, databases: Databases, clock: Clock, platforms: Platforms) -> None:
    """Reconcile a cloud; the run fails unless every type was compared and written."""
    cloud, accept_deletions = context.op_config["cloud"], context.op_config["accept_deletions"]
    settings = Settings.from_environment()
    actor = context.run.tags.get("tally/actor", "dagster")
    with retried(context), connected(databases.reporting()) as reporting:
        report = sync(
            reporting,
            cloud,
            adapter_of(reporting, cloud, platforms.factories()),
            clock=clock.now,
            clock_skew=settings.clock_skew,
            max_deleted_percent=settings.sync_max_deleted_percent,
            actor=actor,
            accept_deletions=accept_deletions,
        )
    context.add_output_metadata(_metadata(report))
    if report.status != "completed":
        raise Failure(
            f"the sync of {report.cloud} is {report.status}: {'; '.join(report.errors)}",
            metadata=_metadata(report),
            allow_retries=False,
        )


def _metadata(report: SyncReport) -> dict[str, MetadataValue[Any]]:
    numbers = ("created", "updated", "deleted", "skipped", "rejected", "withheld")
    counts: dict[str, MetadataValue[Any]] = {name: MetadataValue.int(report.total(name)) for name in numbers}
    return counts | {"listings": _table(report.listings)}


def _table(listings: tuple[ListingRow, ...]) -> MarkdownMetadataValue:
    rows = [
        f"| {row.resource_type} | {row.status} | {row.listed} | {row.created} | {row.updated} | {row.deleted} |"
        for row in listings
    ]
    head = ["| resource type | status | listed | created | updated | deleted |", "|---|---|---|---|---|---|"]
    return MetadataValue.md("\n".join(head + rows))
