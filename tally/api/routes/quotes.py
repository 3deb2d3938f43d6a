"""Quotes: what described usage costs. Nothing is written here."""

from fastapi import APIRouter

from tally.api.answers import JsonAnswer
from tally.api.dependencies import Caller, InProcess, JsonBody, Metering, Reporting, check_project_filter
from tally.domain.period import BillingPeriod
from tally.services.quote_document import read_items, read_project, write_quote
from tally.services.quotes import quote

router = APIRouter()


@router.post("/api/v1/quotes", operation_id="createQuote")
def create(
    body: JsonBody, caller: Caller, state: InProcess, reporting: Reporting, metering: Metering
) -> JsonAnswer:
    """Price described usage."""
    project = read_project(body)
    if project is not None:
        check_project_filter(caller, *project)
    made = quote(
        reporting,
        metering,
        BillingPeriod.parse(body["period"], state.settings.zone),
        read_items(body),
        price_version=body.get("price_version"),
        project=project,
        visible=caller.projects,
    )
    return JsonAnswer(write_quote(made))
