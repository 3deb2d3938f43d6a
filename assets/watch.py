"""Checks of what goes on after a close: they warn, and stop nothing. The sensors report them whenever they change.

What is late and what is silent is found out by tally.services.due.
"""

from collections.abc import Iterator, Sequence

from dagster import (
    AssetCheckResult,
    AssetChecksDefinition,
    AssetCheckSeverity,
    AssetCheckSpec,
    multi_asset_check,
)

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


def late_result(periods: Sequence[Late]) -> AssetCheckResult:
    """Whether finalized periods know all that has arrived, and what to do where one does not."""
    late = [period for period in periods if period.found]
    return AssetCheckResult(
        asset_key="finalized_period",
        check_name=NOTHING_LATE,
        passed=not late,
        severity=AssetCheckSeverity.WARN,
        description="\n".join(_proposal(each) for each in late) or None,
        metadata={each.period: f"{each.news}, as of run {each.run.id}" for each in late},
    )


def _proposal(late: Late) -> str:
    remedy = f"look at it: tally late {late.period}; correct it: materialize the month, or tally correct {late.period}"
    return f"{late.period}: {late.news}; {remedy}"


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
    # Not by month: of a month Dagster takes one verdict without a run, and refuses the next.
    spec = AssetCheckSpec(
        NOTHING_LATE,
        asset="finalized_period",
        description="What has arrived for finalized months is in their records; what is not waits for a correction.",
    )

    @multi_asset_check(name="check_late", specs=[spec])
    def check(databases: Databases) -> Iterator[AssetCheckResult]:
        with connected(databases.reporting()) as reporting, connected(databases.metering()) as metering:
            yield late_result(due.late(reporting, metering))

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
