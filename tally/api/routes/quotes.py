"""Quotes: what described usage costs. Nothing is written here."""

from fastapi import APIRouter

from tally.api.answers import JsonAnswer
from tally.api.dependencies import InProcess, JsonBody, Metering, Reporting
from tally.domain.period import BillingPeriod
from tally.services.quote_document import read_items, write_quote
from tally.services.quotes import quote

router = APIRouter()


@router.post("/api/v1/quotes", operation_id="createQuote")
def create(body: JsonBody, state: InProcess, reporting: Reporting, metering: Metering) -> JsonAnswer:
    """Price described usage."""
    period = BillingPeriod.parse(body["period"], state.settings.zone)
    return JsonAnswer(write_quote(quote(reporting, metering, period, read_items(body), body.get("price_version"))))
