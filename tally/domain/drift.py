"""What is concluded from one resource's listing: which synthetic events, at which instants, under which ids (rule 9).

Pure decisions. Listing, comparing many and writing are the business of tally.services.reconcile.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from tally.domain.event import canonical_json
from tally.domain.instants import MICROSECOND
from tally.domain.inventory import Listed
from tally.domain.timeline import Projection

CREATE = "reconcile.create"
UPDATE = "reconcile.update"
DELETE = "reconcile.delete"

# Platforms list for some minutes what they have just deleted: so long, a listing does not reopen what its collector
# has closed.
SETTLING = timedelta(minutes=10)

# Before this no platform had resources: what is older is an unset field, such as the year 1 or 1970.
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)

# So many resources may always vanish at once. In a small cloud one of them is a great share, and an operator who has
# to confirm every tidying-up learns to confirm without looking.
ALWAYS_DELETABLE = 10


@dataclass(frozen=True, slots=True)
class Listing:
    """The circumstances of a listing of one resource type."""

    started_at: datetime
    latest: datetime  # the latest instant that a platform's clock may show: now, and the skew that is tolerated
    since: datetime | None = None  # when the previous listing that was compared had started


@dataclass(frozen=True, slots=True)
class Change:
    """A synthetic event to be written. ``project_id`` None: nobody knows it, so that no event can be made."""

    event_type: str
    timestamp: datetime
    project_id: str | None
    payload: Mapping[str, Any]
    after: str  # id of the last event of the resource, empty if there is none

    def event_id(self, resource: tuple[str, str, str]) -> str:
        """Hash the resource, what was observed, and the last event, but no instant: one observation, one event."""
        seen = [*resource, self.event_type, self.project_id, self.payload, self.after]
        return f"reconcile-{hashlib.sha256(canonical_json(seen).encode()).hexdigest()}"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to write of a resource, in order; or that it has to wait for the next sync."""

    changes: tuple[Change, ...] = ()
    waits: bool = False


_AGREES = Verdict()
_WAITS = Verdict(waits=True)


def judge(listed: Listed | None, known: Projection | None, listing: Listing) -> Verdict:
    """Compare a resource as it is listed (None: absent from a complete listing) with what its events say."""
    if known is not None and known.last_event_at >= listing.started_at:
        return _WAITS
    if listed is None or listed.deleted_at is not None:
        return _gone(listed, known, listing)
    if known is None or not known.open:
        return _exists(listed, known, listing)
    return _looks(listed, known, listing)


def too_many(closing: int, open_before: int, max_percent: int) -> bool:
    """Whether so many deletions are rather a fault of the listing than the truth."""
    return closing > ALWAYS_DELETABLE and closing * 100 > open_before * max_percent


def state_of(listed: Listed) -> str | None:
    """Return the state as the fold reads it, in lower case."""
    return listed.state.encode().lower().decode() if listed.state else None


def _gone(listed: Listed | None, known: Projection | None, listing: Listing) -> Verdict:
    if known is not None and known.open:
        return Verdict((_end(listed, known, listing),))
    if listed is None:
        return _AGREES
    return _was_missed(listed, known, listing)


def _was_missed(listed: Listed, known: Projection | None, listing: Listing) -> Verdict:
    """Tell the life of a deleted resource of which no create is known, if the platform says when it began.

    One that no event ever named counts only if it came and went since the previous listing: platforms also list what
    was deleted before anybody asked.
    """
    born, ended = _sensible(listed.created_at, listing), _sensible(listed.deleted_at, listing)
    if born is None or ended is None:
        return _AGREES
    if known is None:
        if listing.since is None or not listing.since < ended or born >= ended:
            return _AGREES
    elif known.created_at is not None or (known.deleted_at is not None and born >= known.deleted_at):
        return _AGREES
    begin = _configured(CREATE, born, listed, known)
    if known is not None and known.deleted_at is not None:
        return Verdict((begin,))
    return Verdict((begin, _end(listed, known, listing, begin.project_id)))


def _exists(listed: Listed, known: Projection | None, listing: Listing) -> Verdict:
    """Open a life: of a resource that is new, or that was closed and is there again."""
    born = _sensible(listed.created_at, listing)
    if known is None or known.deleted_at is None:
        return Verdict((_configured(CREATE, born or listing.started_at, listed, known),))
    if born is None or born <= known.last_event_at:
        # The same one as before: only if the platform stays with it, unless it was us who closed it.
        if known.last_event_type != DELETE and known.last_event_at > listing.started_at - SETTLING:
            return _WAITS
        born = listing.started_at
    return Verdict((_configured(CREATE, born, listed, known),))


def _looks(listed: Listed, known: Projection, listing: Listing) -> Verdict:
    state = state_of(listed)
    if (
        (not listed.project_id or listed.project_id == known.project_id)
        and (state is None or state == known.last_state)
        and (listed.size is None or canonical_json(listed.size) == canonical_json(known.size))
    ):
        return _AGREES
    changed = _sensible(listed.updated_at, listing)
    if changed is None or changed <= known.last_event_at:
        # That instant is of another change, which the events told.
        changed = listing.started_at
    return Verdict((_configured(UPDATE, changed, listed, known),))


def _configured(event_type: str, at: datetime, listed: Listed, known: Projection | None) -> Change:
    payload: dict[str, Any] = {}
    if state := state_of(listed):
        payload["state"] = state
    if listed.size is not None:
        payload["size"] = dict(listed.size)
    project_id = listed.project_id or (known.project_id if known is not None else None)
    return Change(event_type, at, project_id, payload, known.last_event_id if known is not None else "")


def _end(
    listed: Listed | None, known: Projection | None, listing: Listing, project_id: str | None = None
) -> Change:
    """Close a life when the platform says it ended, but after the last event: until then it was seen alive.

    A synthetic delete before a sign of life would be void, and the resource never closed.
    """
    ended = _sensible(listed.deleted_at, listing) if listed is not None else None
    if ended is None:
        ended = listing.started_at
    if known is None:
        return Change(DELETE, ended, project_id, {}, "")
    ended = max(ended, known.last_event_at + MICROSECOND)
    return Change(DELETE, ended, project_id or known.project_id, {}, known.last_event_id)


def _sensible(instant: datetime | None, listing: Listing) -> datetime | None:
    if instant is None or not EARLIEST <= instant <= listing.latest:
        return None
    return instant
