"""The step that reconciles one cloud. How that is done belongs to tally.services.reconcile."""

from typing import Any

from dagster import Config, Failure, MarkdownMetadataValue, MetadataValue, OpExecutionContext, op
from pydantic import Field

from assets.steps import retried
from resources.clock import Clock
from resources.databases import Databases
from resources.platforms import Platforms
from tally.services.adapters import adapter_of
from tally.services.reconcile import SyncReport, sync
from tally.settings import Settings
from tally.store.database import connected
from tally.store.reporting.syncs import ListingRow


class CloudToSync(Config):
    """What is reconciled."""

    cloud: str = Field(description="Name of a registered cloud whose platform has an adapter")
    accept_deletions: bool = Field(
        default=False, description="Close however many resources the listing no longer has; it is audited"
    )


@op(description="List what the platform has, compare it with what the events tell, and write what they do not.")
def sync_cloud(
    context: OpExecutionContext, config: CloudToSync, databases: Databases, clock: Clock, platforms: Platforms
) -> None:
    """Reconcile a cloud; the run fails unless every type was compared and written."""
    settings = Settings.from_environment()
    actor = context.run.tags.get("tally/actor", "dagster")
    with retried(context), connected(databases.reporting()) as reporting:
        report = sync(
            reporting,
            config.cloud,
            adapter_of(reporting, config.cloud, platforms.factories()),
            clock=clock.now,
            clock_skew=settings.clock_skew,
            max_deleted_percent=settings.sync_max_deleted_percent,
            actor=actor,
            accept_deletions=config.accept_deletions,
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
