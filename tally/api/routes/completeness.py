"""What stands between a month and its finalization, and the waivers that let it pass (rule 19)."""

from pathlib import Path
from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, InProcess, JsonBody, Metering, Reporting
from tally.api.paging import Paged
from tally.api.parameters import MonthInPath
from tally.domain.completeness import Line, Policy, Waiver
from tally.domain.errors import InvalidInput, Unavailable
from tally.domain.period import BillingPeriod
from tally.services.completeness import report
from tally.services.completeness_policy import read_policy
from tally.services.waivers import list_waivers, read_until, waive

router = APIRouter()

_WAIVERS = "/api/v1/periods/{period}/waivers"


@router.get("/api/v1/periods/{period}/completeness", operation_id="getCompleteness")
def completeness(period: MonthInPath, state: InProcess, reporting: Reporting, metering: Metering) -> JsonAnswer:
    """Say what the run of a month has found, as the policy judges it."""
    found = report(reporting, metering, period, _policy(state.settings.completeness_policy), state.clock())
    return JsonAnswer(
        {
            "period": found.run.period,
            "run_id": str(found.run.id),
            "status": found.run.status,
            "at": instant(found.at),
            "currency": found.currency,
            "blocks": found.blocks,
            "items": [_line(line) for line in found.lines],
        }
    )


@router.get(_WAIVERS, operation_id="listWaivers")
def waivers(period: MonthInPath, metering: Metering, page: Paged) -> JsonAnswer:
    """List the waivers of a month, the oldest first."""
    after = page.after(int)
    rows = list_waivers(metering, period, after=after[0] if after else 0, limit=page.fetch)
    return page.answer(rows, lambda row: (row.id,), waiver_view)


@router.post(_WAIVERS, operation_id="createWaiver")
def create(
    period: MonthInPath, body: JsonBody, caller: Caller, state: InProcess, reporting: Reporting, metering: Metering
) -> JsonAnswer:
    """Let findings of a kind pass for a month."""
    settings = state.settings
    waiver, created = waive(
        reporting,
        metering,
        BillingPeriod.parse(period, settings.zone),
        body["kind"],
        body["reason"],
        _policy(settings.completeness_policy),
        caller.name,
        state.clock(),
        cloud=body.get("cloud", ""),
        until=read_until(body["until"], settings.zone) if body.get("until") else None,
    )
    return JsonAnswer(waiver_view(waiver), 201 if created else 200)


def waiver_view(waiver: Waiver) -> dict[str, Any]:
    """Show a waiver."""
    return {
        "id": waiver.id,
        "period": waiver.period,
        "kind": waiver.kind,
        "cloud": waiver.cloud or None,
        "reason": waiver.reason,
        "actor": waiver.actor,
        "until": instant(waiver.until),
        "created_at": instant(waiver.created_at),
    }


def _policy(path: Path | None) -> Policy:
    """Read the policy anew: it may be mended while the API runs. A fault in it is not the caller's."""
    try:
        return read_policy(path)
    except InvalidInput as error:
        raise Unavailable(str(error)) from None


def _line(line: Line) -> dict[str, Any]:
    return {
        "kind": line.kind,
        "cloud": line.cloud or None,
        "count": line.count,
        "action": line.action,
        "blocks": line.blocks,
        "waiver": line.waiver and waiver_view(line.waiver),
        "at_risk": line.at_risk,
        "untold": line.untold,
        "examples": list(line.examples),
    }
