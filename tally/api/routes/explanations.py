"""What a rated record stands on, from the cent to the events. Nothing is written here."""

from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, Metering
from tally.api.parameters import IdInPath, Period
from tally.domain.timeline import Step
from tally.services.explain import Explanation, Other, explain

router = APIRouter()


@router.get("/api/v1/rated-records/{id}/explanation", operation_id="getExplanation")
def get_explanation(id: IdInPath, period: Period, caller: Caller, metering: Metering) -> JsonAnswer:  # noqa: A002
    """Explain a rated record."""
    found = explain(metering, id, period, caller.projects)
    return JsonAnswer(
        {
            "record": _record(found),
            "holds": found.holds,
            "working": _working(found),
            "price_version": {"version": found.record.pricing_version, "content_hash": found.record.pricing_hash},
            "usage": _usage(found),
            "run": {
                "id": str(found.run.id),
                "period": found.run.period,
                "kind": found.run.kind,
                "status": found.run.status,
                "load_id": found.run.load_id,
                "registry_version": found.run.registry_version,
            },
            "caused_by": _event(found.caused_by),
            "ended_by": _event(found.ended_by),
            "increments": [
                {"at": instant(one.at), "quantity": one.quantity, "event": _event(one.event)}
                for one in found.increments
            ],
            "increment_count": found.increment_count,
            "reverses": _other(found.reverses),
            "reversed_by": _other(found.reversed_by),
        }
    )


def _record(found: Explanation) -> dict[str, Any]:
    told = found.record._asdict()
    del told["pricing_hash"], told["formula"]
    ids = ("id", "run_id", "usage_record_id", "reverses_id")
    span = {name: at and instant(at) for name, at in (("from", told.pop("from_ts")), ("to", told.pop("to_ts")))}
    return told | span | {name: told[name] and str(told[name]) for name in ids}


def _working(found: Explanation) -> dict[str, Any] | None:
    working = found.working
    if working is None:
        return None
    return {
        "formula": str(working.formula),
        "numerator": working.numerator,
        "divisor": working.divisor,
        "lines": list(working.lines),
    }


def _usage(found: Explanation) -> dict[str, Any]:
    usage, record = found.usage, found.record
    return {
        "id": str(usage.id),
        "run_id": str(usage.run_id),
        "cloud": record.cloud,
        "platform": record.platform,
        "resource_type": record.resource_type,
        "resource_id": record.resource_id,
        "project_id": usage.project_id,
        "state": usage.state,
        "from": instant(usage.from_ts),
        "to": instant(usage.to_ts),
        "from_event_id": usage.from_event_id,
        "to_event_id": usage.to_event_id,
        "usage": usage.usage,
        "sign": usage.sign,
        "reverses_id": usage.reverses_id and str(usage.reverses_id),
    }


def _event(step: Step | None) -> dict[str, Any] | None:
    if step is None:
        return None
    return {
        "event_id": step.event_id,
        "timestamp": instant(step.timestamp),
        "event_type": step.event_type,
        "project_id": step.project_id,
    }


def _other(record: Other | None) -> dict[str, str] | None:
    return None if record is None else {"id": str(record.record_id), "run_id": str(record.run_id)}
