"""Questions about metered months: bills, usage and costs that count, periods and runs. Reading only."""

from collections.abc import Callable, Collection
from datetime import datetime, timedelta

from tally.domain.errors import NotFound
from tally.domain.principal import ProjectKey
from tally.domain.run import Run, RunStatus
from tally.services import runs as run_services
from tally.services.runs import PeriodRow
from tally.store.database import Connection
from tally.store.metering import queries as store
from tally.store.metering.queries import BillRow, LedgerFilter, RatedRow, RecordKey, RunKey, UsageRow
from tally.store.metering.runs import latest_run


def latest(metering: Connection, period: str) -> Run:
    """Return the run as of which the records of a period count: its live one, or the last correction of it.

    Raises:
        NotFound: if it has none.
    """
    run = latest_run(metering, period)
    if run is None:
        raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
    return run


def list_bills(
    metering: Connection,
    run: Run,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: ProjectKey | None,
    limit: int,
) -> list[BillRow]:
    """Return the next bills as of a run after (cloud, project_id); to be seen by who may see the billed project.

    The documents of a page are not much longer than store.BYTES_OF_BILLS together: rows beyond have none.
    """
    return store.bills(metering, run.id, wanted, visible=visible, after=after, limit=limit)


def list_usage_records(
    metering: Connection,
    run: Run,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: RecordKey | None,
    limit: int,
) -> list[UsageRow]:
    """Return the next usage records as of a run after (cloud, resource_type, resource_id, id)."""
    return store.usage_records(metering, run.id, wanted, visible=visible, after=after, limit=limit)


def list_rated_records(
    metering: Connection,
    run: Run,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: RecordKey | None,
    limit: int,
) -> list[RatedRow]:
    """Return the next rated records as of a run after (cloud, resource_type, resource_id, id)."""
    return store.rated_records(metering, run.id, wanted, visible=visible, after=after, limit=limit)


def list_periods(
    metering: Connection, grace: timedelta, clock: Callable[[], datetime], *, before: str | None, limit: int
) -> list[PeriodRow]:
    """Return the next metered months before one, the newest first; they are few."""
    rows = run_services.periods(metering, grace, clock)
    return [row for row in rows if before is None or row.period < before][:limit]


def list_runs(
    metering: Connection, period: str | None, status: RunStatus | None, *, after: RunKey | None, limit: int
) -> list[Run]:
    """Return the next runs after (started_at, id), the newest first."""
    return store.runs(metering, period, status, after=after, limit=limit)
