"""Rejected events: what could not be taken, and trying it again (rule 7)."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, InProcess, JsonBody, Reporting
from tally.api.paging import Paged
from tally.api.parameters import From, NameFilter, To
from tally.services.ingest import Ingest
from tally.services.rejected import RESULTS, list_letters, replay_letter, replay_letters, show_letter
from tally.store.reporting.rejected import LetterFilter, LetterRow

router = APIRouter()

REJECTED_EVENT = "/api/v1/rejected-events/{id}"
LetterId = Annotated[int, Path(alias="id", ge=1, le=2**63 - 1)]


def door_of(state: InProcess, caller: Caller, reporting: Reporting) -> Ingest:
    """The door for the events that a caller replays."""
    return Ingest(reporting, clock=state.clock, clock_skew=state.settings.clock_skew, actor=caller.name)


Door = Annotated[Ingest, Depends(door_of)]


@router.get("/api/v1/rejected-events", operation_id="listRejectedEvents")
def rejected_events(
    reporting: Reporting,
    page: Paged,
    reason: NameFilter = None,
    cloud: NameFilter = None,
    platform: NameFilter = None,
    resource_type: NameFilter = None,
    since: From = None,
    until: To = None,
    replayed: Annotated[bool | None, Query()] = None,
) -> JsonAnswer:
    """List rejected events, the newest first."""
    after = page.after(int)
    which = LetterFilter(reason, cloud, platform, resource_type, since, until, replayed)
    rows = list_letters(reporting, which, after=after[0] if after else None, limit=page.fetch)
    return page.answer(rows, lambda row: (row.id,), _view)


@router.get(REJECTED_EVENT, operation_id="getRejectedEvent")
def rejected_event(letter_id: LetterId, reporting: Reporting) -> JsonAnswer:
    """Show a rejected event with what was sent."""
    letter = show_letter(reporting, letter_id)
    return JsonAnswer(_view(letter.row) | {"raw": letter.content, "encoding": letter.encoding})


@router.post("/api/v1/rejected-events/replay", operation_id="replayRejectedEvents")
def replay_all(body: JsonBody, caller: Caller, reporting: Reporting, door: Door) -> JsonAnswer:
    """Try all of a reason again."""
    which = LetterFilter(reason=body["reason"], cloud=body.get("cloud"))
    replay = replay_letters(reporting, door, which, caller.name, after=int(body.get("after", 0)))
    content: dict[str, Any] = {result: replay.results[result] for result in RESULTS}
    more = {"reasons": dict(replay.reasons), "remaining": replay.remaining, "next_after": replay.next_after}
    return JsonAnswer(content | more)


@router.post(f"{REJECTED_EVENT}/replay", operation_id="replayRejectedEvent")
def replay_one(letter_id: LetterId, caller: Caller, state: InProcess, reporting: Reporting, door: Door) -> JsonAnswer:
    """Try one again."""
    replayed = replay_letter(reporting, door, letter_id, caller.name)
    result: dict[str, Any] = {"event_id": replayed.event_id, "status": replayed.result}
    if replayed.result == "rejected":
        result |= {"reason": replayed.reason, "detail": replayed.detail}
    elif replayed.result == "accepted" and replayed.event is not None:
        result |= state.finalized.late_for(replayed.event)
    return JsonAnswer(result)


def _view(row: LetterRow) -> dict[str, Any]:
    return {
        "id": row.id,
        "reason": row.reason,
        "detail": row.detail,
        "cloud": row.cloud,
        "platform": row.platform,
        "resource_type": row.resource_type,
        "event_id": row.event_id,
        "format": row.format,
        "received_at": instant(row.received_at),
        "replayed_at": instant(row.replayed_at),
        "bytes": row.size_bytes,
    }
