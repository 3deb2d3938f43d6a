"""POST /api/v1/events: the event sink (rules 1 to 7). The history is read at event_queries.py."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from fastapi import APIRouter, Request
from starlette.responses import Response

from tally.api.answers import JsonAnswer
from tally.api.dependencies import Caller, InProcess, RawBody, media_type_of
from tally.api.problems import Problem
from tally.api.state import State
from tally.domain.cloud_event import claims_of, map_cloud_event
from tally.domain.errors import InvalidEvent, InvalidInput, Unavailable
from tally.domain.event import Batch, Element, Event, split_batch
from tally.domain.principal import Principal
from tally.services.ingest import STATUSES, Ingest, InvalidInputEvent, Outcome
from tally.store.database import Connection

router = APIRouter()


@router.post("/api/v1/events", operation_id="sendEvents")
def send_events(request: Request, body: RawBody, state: InProcess, caller: Caller) -> Response:
    """Take one event or a batch, and say what became of each."""
    batch = split_batch(body, limit=state.settings.api_max_batch_events)
    outcomes = _ingest(batch, media_type_of(request), state, caller)
    state.metrics.ingested(outcomes, state.clock())
    return _one(outcomes[0], state) if batch.single else _all(outcomes, state)


def _ingest(batch: Batch, media_type: str, state: State, caller: Principal) -> list[Outcome]:
    mapped = None
    if media_type != "application/json":
        _check_mode(media_type, batch)
        mapped = [_mapped(element) for element in batch.elements]
    try:
        # Taken here, in the thread that uses it: as a dependency it would cost three changes of thread.
        with state.reporting.connection() as reporting:
            door = _door(state, caller, reporting)
            outcomes = door.ingest(batch.elements) if mapped is None else door.ingest_events(mapped)
    except Unavailable:
        state.health.batch_ended(well=False)
        raise
    state.health.batch_ended(well=True)
    return outcomes


def _door(state: State, caller: Principal, reporting: Connection) -> Ingest:
    return Ingest(
        reporting, clock=state.clock, clock_skew=state.settings.clock_skew, actor=caller.name, scope=caller.scope
    )


def _mapped(element: Element) -> Event | InvalidInputEvent:
    value = element.value
    try:
        if isinstance(value, InvalidEvent):
            raise value
        return map_cloud_event(value)
    except InvalidEvent as error:
        return InvalidInputEvent(element.raw, error.reason, error.detail, *claims_of(value), format="cloudevents")


def _check_mode(media_type: str, batch: Batch) -> None:
    if batch.single != (media_type == "application/cloudevents+json"):
        raise InvalidInput("application/cloudevents+json is one event, application/cloudevents-batch+json an array")


def _one(outcome: Outcome, state: State) -> Response:
    if outcome.status == "rejected":
        forbidden = outcome.reason == "forbidden"
        raise Problem(
            403 if forbidden else 400,
            "forbidden" if forbidden else "invalid-event",
            outcome.detail,
            reason=outcome.reason,
            event_id=outcome.event_id,
        )
    return JsonAnswer(_result(outcome, state), 201 if outcome.status == "accepted" else 200)


def _all(outcomes: Sequence[Outcome], state: State) -> Response:
    counts = Counter(outcome.status for outcome in outcomes)
    totals = {status: counts[status] for status in STATUSES}
    return JsonAnswer({**totals, "results": [_result(outcome, state) for outcome in outcomes]})


def _result(outcome: Outcome, state: State) -> dict[str, Any]:
    result: dict[str, Any] = {"event_id": outcome.event_id, "status": outcome.status}
    if outcome.status == "rejected":
        result |= {"reason": outcome.reason, "detail": outcome.detail}
    elif outcome.status == "accepted" and outcome.event is not None:
        result |= state.finalized.late_for(outcome.event)
    return result
