"""What partners are owed for a month. Nothing is written here."""

from fastapi import APIRouter

from tally.api.answers import JsonAnswer
from tally.api.dependencies import Metering
from tally.api.paging import Paged
from tally.api.parameters import NameFilter, Period
from tally.services.kickbacks import kickbacks, partner_view

router = APIRouter()


@router.get("/api/v1/kickbacks", operation_id="listKickbacks")
def list_kickbacks(period: Period, metering: Metering, page: Paged, partner: NameFilter = None) -> JsonAnswer:
    """List the kickbacks of a month by (cloud, project_id, currency) of the partner."""
    report = kickbacks(metering, period, partner)
    after = page.after(str, str, str)
    rows = [row for row in report.partners if after is None or row.key > after]
    status = {"run_id": str(report.run.id), "status": report.run.status}
    return page.answer(rows, lambda row: row.key, lambda row: partner_view(row) | status)
