"""Metered months: bills, usage and costs with their corrections, periods and runs. Nothing is written here."""

from dataclasses import asdict
from datetime import datetime
from typing import Annotated, Any
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from tally.api.answers import JsonAnswer, instant, stored
from tally.api.dependencies import Caller, InProcess, Metering, Reporting, check_project_filter
from tally.api.paging import Key, Page, Paged
from tally.api.parameters import NameFilter, Period, PeriodFilter
from tally.api.routes.completeness import waiver_view
from tally.domain.errors import InvalidInput
from tally.domain.principal import Role
from tally.domain.run import Run, RunStatus
from tally.services.completeness import waivers_of
from tally.services.late import late_relations
from tally.services.ledger_queries import (
    latest,
    list_bills,
    list_periods,
    list_rated_records,
    list_runs,
    list_usage_records,
)
from tally.services.runs import PeriodRow
from tally.store.metering.queries import BillRow, LedgerFilter, RatedRow, UsageRow

router = APIRouter()


def records_filter(
    caller: Caller,
    cloud: NameFilter = None,
    project_id: NameFilter = None,
    resource_type: NameFilter = None,
    resource_id: NameFilter = None,
) -> LedgerFilter:
    """Return what a list of records is narrowed down to, if the caller may ask for it."""
    check_project_filter(caller, cloud, project_id)
    return LedgerFilter(cloud, project_id, resource_type, resource_id)


RecordsFilter = Annotated[LedgerFilter, Depends(records_filter)]


@router.get("/api/v1/bills", operation_id="listBills")
def bills(
    period: Period,
    caller: Caller,
    metering: Metering,
    page: Paged,
    cloud: NameFilter = None,
    project_id: NameFilter = None,
) -> JsonAnswer:
    """List the bills of a month by (cloud, project_id)."""
    check_project_filter(caller, cloud, project_id)
    run = latest(metering, period)
    rows = list_bills(
        metering,
        run,
        LedgerFilter(cloud, project_id),
        visible=caller.projects,
        after=_after(page, run, str, str),
        limit=page.fetch,
    )
    page = page.shortened(sum(row.document is not None for row in rows))
    return page.answer(rows, lambda row: (run.id, *row.key), lambda row: _bill(row, run))


@router.get("/api/v1/usage-records", operation_id="listUsageRecords")
def usage_records(
    period: Period, caller: Caller, metering: Metering, page: Paged, wanted: RecordsFilter
) -> JsonAnswer:
    """List the usage records of a month by (cloud, resource_type, resource_id, id)."""
    run = latest(metering, period)
    after = _after(page, run, str, str, str, UUID)
    rows = list_usage_records(metering, run, wanted, visible=caller.projects, after=after, limit=page.fetch)
    return page.answer(rows, lambda row: (run.id, *row.key), _usage)


@router.get("/api/v1/rated-records", operation_id="listRatedRecords")
def rated_records(
    period: Period, caller: Caller, metering: Metering, page: Paged, wanted: RecordsFilter
) -> JsonAnswer:
    """List the rated records of a month by (cloud, resource_type, resource_id, id)."""
    run = latest(metering, period)
    after = _after(page, run, str, str, str, UUID)
    rows = list_rated_records(metering, run, wanted, visible=caller.projects, after=after, limit=page.fetch)
    return page.answer(rows, lambda row: (run.id, *row.key), _rated)


@router.get("/api/v1/periods", operation_id="listPeriods")
def periods(caller: Caller, reporting: Reporting, metering: Metering, state: InProcess, page: Paged) -> JsonAnswer:
    """List the metered months, the newest first."""
    after = page.after(str)
    rows = list_periods(
        metering, state.settings.grace, state.clock, before=after[0] if after else None, limit=page.fetch
    )

    def view(row: PeriodRow) -> dict[str, Any]:
        if caller.role is Role.CONSUMER or row.run.status != "finalized":
            return _period(row)
        return _period(row) | {"late_relations": len(late_relations(reporting, metering, row.latest))}

    return page.answer(rows, lambda row: (row.period,), view)


@router.get("/api/v1/runs", operation_id="listRuns")
def runs(
    metering: Metering,
    page: Paged,
    period: PeriodFilter = None,
    status: Annotated[RunStatus | None, Query()] = None,
) -> JsonAnswer:
    """List the runs, the newest first."""
    after = page.after(datetime, UUID)
    rows = list_runs(metering, period, status, after=after, limit=page.fetch)
    waivers = waivers_of(metering, rows)

    def view(run: Run) -> dict[str, Any]:
        return _run(run) | {"waivers": [waiver_view(waiver) for waiver in waivers.get(str(run.id), ())]}

    return page.answer(rows, lambda row: (row.started_at, row.id), view)


def _after(page: Page, run: Run, *types: type) -> Key | None:
    """Return the key that a page begins after, within the run that the first page was of.

    Raises:
        InvalidInput: if another run has taken its place: the rest of its pages would not fit those that were read.
    """
    key = page.after(UUID, *types)
    if key is not None and key[0] != run.id:
        raise InvalidInput("the month was run again since the first page; begin again without cursor")
    return key and key[1:]


def _bill(row: BillRow, run: Run) -> dict[str, Any]:
    assert row.document is not None, "what is beyond the page is not shown"
    return {
        "cloud": row.cloud,
        "project_id": row.project_id,
        "platform": row.platform,
        "total": row.total,
        "currency": row.currency,
        "run_id": str(row.run_id),
        "status": run.status,
        "bill": stored(row.document),
    }


def _usage(row: UsageRow) -> dict[str, Any]:
    return {
        "id": str(row.id),
        "run_id": str(row.run_id),
        "cloud": row.cloud,
        "platform": row.platform,
        "resource_type": row.resource_type,
        "resource_id": row.resource_id,
        "project_id": row.project_id,
        "state": row.state,
        "from": instant(row.from_ts),
        "to": instant(row.to_ts),
        "from_event_id": row.from_event_id,
        "to_event_id": row.to_event_id,
        "usage": stored(row.usage),
        "sign": row.sign,
        "reverses_id": row.reverses_id and str(row.reverses_id),
    }


def _rated(row: RatedRow) -> dict[str, Any]:
    told = row._asdict()
    return told | {
        "from": _plain(told.pop("from_ts")),
        "to": _plain(told.pop("to_ts")),
        "id": str(row.id),
        "run_id": str(row.run_id),
        "usage_record_id": str(row.usage_record_id),
        "reverses_id": row.reverses_id and str(row.reverses_id),
    }


def _period(row: PeriodRow) -> dict[str, Any]:
    return {
        "period": row.period,
        "from": instant(row.run.period_from),
        "to": instant(row.run.period_to),
        "zone": row.run.zone,
        "status": row.status,
        "run_id": str(row.run.id),
        "preliminary": row.run.preliminary,
    }


def _run(run: Run) -> dict[str, Any]:
    told = {name: _plain(value) for name, value in asdict(run).items()}
    return told | {"from": told.pop("period_from"), "to": told.pop("period_to")}


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return instant(value)
    return str(value) if isinstance(value, UUID) else value
