"""Steps of a resource's history, written by hand or read from a record of the model."""

from datetime import datetime
from typing import Any

from tally.domain.instants import parse_instant
from tally.domain.resource_type import Effect
from tally.domain.timeline import Step
from tests.model import Record

SMALL = {"size_gb": 100}
LARGE = {"size_gb": 200}


def at(clock: str) -> datetime:
    """An instant of one day."""
    return parse_instant(f"2026-03-05T{clock}Z")


def step(clock: str, effect: str, event_id: str = "", **fields: Any) -> Step:
    """A step of the collector; without an id it is named by its effect and time."""
    defaults: dict[str, Any] = {"synthetic": False, "project_id": "p1", "size": None, "state": None, "payload": {}}
    known = Effect(effect)
    return Step(at(clock), event_id or f"{effect} {clock}", f"thing.{effect}", known, **(defaults | fields))


def as_step(record: Record) -> Step:
    """A record of the model as the fold sees it; only create and update say what a resource is."""
    configures = record.effect in ("create", "update")
    return Step(
        timestamp=record.timestamp,
        event_id=record.event_id,
        event_type=record.effect,
        effect=Effect(record.effect),
        synthetic=record.source == "reconciliation",
        project_id=record.project_id,
        size=dict(record.size) if configures and record.size is not None else None,
        state=record.state if configures else None,
        payload={"usage": record.usage} if record.usage else {},
    )
