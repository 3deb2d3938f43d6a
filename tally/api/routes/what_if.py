"""What a draft of prices would have made of a closed month. The draft is not loaded, and nothing is written."""

from fastapi import APIRouter

from pricing.price_file import parse_price_version
from tally.api.answers import JsonAnswer
from tally.api.dependencies import Alone, JsonBody, Metering, Reporting
from tally.services.pricing import version_named
from tally.services.what_if import what_if
from tally.services.what_if_document import write_what_if

router = APIRouter()


@router.post("/api/v1/what-if", operation_id="compareDraft")
def compare(body: JsonBody, reporting: Reporting, metering: Metering, _alone: Alone) -> JsonAnswer:
    """Rate the usage of a closed month by a draft, or by a loaded version."""
    text = body.get("pricing")
    draft = version_named(metering, body["price_version"]) if text is None else parse_price_version(text, "the draft")
    return JsonAnswer(write_what_if(what_if(reporting, metering, body["period"], draft)))
