"""Checks of what goes on after a close: they warn, and stop nothing. The sensors report them whenever they change.

What is late and what is silent is found out by tally.services.due.
"""

from collections.abc import Iterator, Sequence

from dagster import (
    AssetCheckExecutionContext,
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    multi_asset_check,
)

from assets.partitions import MONTHS, partitioned_checks
from resources.clock import Clock
from resources.databases import Databases
from tally.domain.instants import format_instant
from tally.services import due
from tally.services.due import Late
from tally.settings import Settings
from tally.store.database import connected
from tally.store.reporting.arrivals import LastHeard

NOTHING_LATE = "nothing_is_late"
NO_SILENCE = "no_cloud_is_silent"


def watching_checks() -> list[AssetChecksDefinition]:
    """The checks that a person can also evaluate by hand."""
    return [_nothing_is_late(), _no_cloud_is_silent()]


def late_result(late: Late) -> AssetCheckResult:
    """Whether a finalized period knows all that has arrived, and what to do if it does not."""
    remedy = f"look at it: tally late {late.period}; correct it: materialize the month, or tally correct {late.period}"
    return AssetCheckResult(
        asset_key="finalized_period",
        check_name=NOTHING_LATE,
        passed=not late.found,
        severity=AssetCheckSeverity.WARN,
        description=f"{late.period}: {late.news}; {remedy}" if late.found else None,
        metadata={
            "late_events_loaded": late.loaded,
            "late_events_waiting_for_a_load": late.waiting,
            "late_versions_of_relations": late.relations,
            "run_id": str(late.run.id),
        },
    )


def silence_result(silent: Sequence[LastHeard]) -> AssetCheckResult:
    """Whether the collector of every cloud that has resources still sends, and what to do if one does not."""
    named = ", ".join(heard.cloud for heard in silent)
    remedy = "look at its collector, then at the rejected events: tally rejected; TALLY_SILENCE_HOURS sets the patience"
    return AssetCheckResult(
        asset_key="raw_events",
        check_name=NO_SILENCE,
        passed=not silent,
        severity=AssetCheckSeverity.WARN,
        description=f"silent: {named}. {remedy}" if silent else None,
        metadata={heard.cloud: f"last event {format_instant(heard.last_event_at)}" for heard in silent},
    )


def _nothing_is_late() -> AssetChecksDefinition:
    with partitioned_checks():
        spec = AssetCheckSpec(
            NOTHING_LATE,
            asset="finalized_period",
            description="All that has arrived for the month is in its records; what is not waits for a correction.",
            partitions_def=MONTHS,
        )

    @multi_asset_check(name="check_late", specs=[spec])
    def check(context: AssetCheckExecutionContext, databases: Databases) -> Iterator[AssetCheckResult]:
        with connected(databases.reporting()) as reporting, connected(databases.metering()) as metering:
            found = [late for late in due.late(reporting, metering) if late.period == context.partition_key]
        if found:
            yield late_result(found[0])
        else:
            yield AssetCheckResult(
                asset_key="finalized_period", check_name=NOTHING_LATE, passed=True, description="it is not finalized"
            )

    return check


def _no_cloud_is_silent() -> AssetChecksDefinition:
    spec = AssetCheckSpec(
        NO_SILENCE,
        asset="raw_events",
        description="The collector of every cloud that has open resources sends events.",
    )

    @multi_asset_check(name="check_silence", specs=[spec])
    def check(databases: Databases, clock: Clock) -> Iterator[AssetCheckResult]:
        with connected(databases.reporting()) as reporting:
            yield silence_result(due.silent(reporting, Settings.from_environment().silence, clock.now()))

    return check
