"""What is late for a finalized month, and what it would change. Nothing is written here."""

from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Metering, Reporting
from tally.api.parameters import MonthInPath
from tally.api.routes.relations import relation_view
from tally.services.late_effect import LateResource, late

MOST_SHOWN = 1000
MOST_EVENTS_SHOWN = 100

router = APIRouter()


@router.get("/api/v1/periods/{period}/late", operation_id="getLate")
def get_late(period: MonthInPath, reporting: Reporting, metering: Metering) -> JsonAnswer:
    """Say what a correction would change."""
    found = late(reporting, metering, period)
    return JsonAnswer(
        {
            "period": found.run.period,
            "run_id": str(found.run.id),
            "currency": found.currency,
            "complete": found.complete,
            "resources": len(found.resources),
            "minutes": found.minutes,
            "amount": found.amount,
            "reasons": list(found.reasons),
            "items": [_resource(resource) for resource in found.resources[:MOST_SHOWN]],
            "relations": [relation_view(relation.after) for relation in found.relations],
        }
    )


def _resource(resource: LateResource) -> dict[str, Any]:
    return {
        "cloud": resource.cloud,
        "platform": resource.platform,
        "resource_type": resource.resource_type,
        "resource_id": resource.resource_id,
        "minutes": resource.minutes,
        "amount": resource.amount,
        "effects": [
            {"project_id": effect.project_id, "minutes": effect.minutes, "amount": effect.amount}
            for effect in resource.effects
        ],
        "events": len(resource.events),
        "late_events": [
            {
                "event_id": event.event_id,
                "timestamp": instant(event.timestamp),
                "event_type": event.event_type,
                "project_id": event.project_id,
            }
            for event in resource.events[:MOST_EVENTS_SHOWN]
        ],
    }
