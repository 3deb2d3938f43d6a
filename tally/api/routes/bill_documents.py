"""The bill of one project, in the form in which it is handed on: JSON, CSV or a page."""

from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Query
from starlette.responses import Response

from tally.api.dependencies import Caller, InProcess, Metering, check_project_filter
from tally.api.parameters import Name, Period
from tally.services.bill_documents import BillForm, bill_document
from tally.services.documents import path_of
from tally.services.ledger_queries import latest

router = APIRouter()

_MEDIA_TYPES = {"json": "application/json", "csv": "text/csv", "html": "text/html"}
# The page holds all that it shows, and texts that come from platforms: nothing else may be loaded or run.
_CLOSED = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; sandbox"


@router.get("/api/v1/bills/document", operation_id="getBillDocument")
def bill_as_document(
    period: Period,
    cloud: Name,
    project_id: Name,
    caller: Caller,
    metering: Metering,
    state: InProcess,
    form: Annotated[Literal["json", "csv", "html"], Query(alias="format")] = "json",
) -> Response:
    """Return the bill of a project that counts, in one form."""
    check_project_filter(caller, cloud, project_id)
    issuer = state.settings.invoice_issuer_name or state.settings.provider_name
    text = bill_document(metering, latest(metering, period), (cloud, project_id), BillForm(form), issuer)
    name = quote(f"{period}-{path_of(cloud, project_id, f'.{form}').name}")
    disposition = "inline" if form == "html" else "attachment"
    headers = {
        "Content-Security-Policy": _CLOSED,
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{name}",
        "Cache-Control": "no-store",
    }
    return Response(text.encode(), media_type=_MEDIA_TYPES[form], headers=headers)
