"""Ingestion: from the bytes of a sender to stored events, an up-to-date projection and dead letters (rules 1 to 7).

One chunk of a batch is one transaction, in which everybody takes locks in the same order: clouds, identities,
resources, projection, dead letters. So any number of processes can bring the same events at once without a deadlock,
and a chunk that fails leaves nothing behind: the sender repeats it, and what was stored is a duplicate.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import psycopg

from tally.domain.errors import InvalidEvent, Unavailable
from tally.domain.event import (
    MAX_TEXT_BYTES,
    Event,
    content_hash,
    decode_event,
    decode_json,
    encode_event,
)
from tally.domain.instants import format_instant
from tally.services import projection
from tally.services.registry import Registry, current_registry
from tally.services.validation import PayloadRules
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.reporting import audit, rejected
from tally.store.reporting import events as store
from tally.store.reporting import registry as registry_store
from tally.store.reporting.events import Identity, NewEvent
from tally.store.reporting.rejected import DeadLetter

EVENTS_PER_TRANSACTION = 1000
MAX_DETAIL = 500

Status = Literal["accepted", "deduplicated", "rejected"]
STATUSES: tuple[Status, ...] = ("accepted", "deduplicated", "rejected")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one input. ``reason`` is a stable word and ``detail`` one line, both only of a rejection."""

    status: Status
    event_id: str
    reason: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class InvalidInputEvent:
    """An input that a mapper could not turn into an event: its raw bytes, why, and what is known of it."""

    raw: bytes
    reason: str
    detail: str
    cloud: str = ""
    event_id: str = ""
    platform: str = ""
    resource_type: str = ""


@dataclass(frozen=True, slots=True)
class _Valid:
    """An input that is an event and fits its type."""

    raw: bytes
    new: NewEvent

    @property
    def identity(self) -> Identity:
        return (self.new.event.cloud, self.new.event.event_id)


_Read = _Valid | DeadLetter
_Input = bytes | Event | InvalidInputEvent


class Ingest:
    """The door for events into the reporting database. One instance per connection, used by one thread at a time."""

    def __init__(
        self, connection: Connection, *, clock: Callable[[], datetime], clock_skew: timedelta, actor: str
    ) -> None:
        """Take events over ``connection`` (in autocommit) on behalf of ``actor``, whom the audit log names.

        ``clock`` tells the present, and an event may be stamped up to ``clock_skew`` after it.
        """
        self._connection = connection
        self._clock = clock
        self._clock_skew = clock_skew
        self._actor = actor
        self._registry = Registry(-1, {})
        self._rules = PayloadRules()
        self._platforms: dict[str, str] = {}  # committed rows of reporting.clouds, which never change

    def ingest(self, raws: Sequence[bytes]) -> list[Outcome]:
        """Take the JSON texts of events and return one outcome per input, in the order of the inputs.

        Raises:
            Unavailable: if the database fails; what was committed by then is a duplicate when the batch comes again.
        """
        return self._ingest(raws)

    def ingest_events(self, events: Sequence[Event | InvalidInputEvent]) -> list[Outcome]:
        """Take events that a mapper has made, and the inputs it could not map, which become dead letters.

        Raises:
            Unavailable: likewise.
        """
        return self._ingest(events)

    def _ingest(self, inputs: Sequence[_Input]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        try:
            for start in range(0, len(inputs), EVENTS_PER_TRANSACTION):
                outcomes += self._ingest_chunk(inputs[start : start + EVENTS_PER_TRANSACTION])
        except (psycopg.OperationalError, psycopg.InterfaceError) as error:
            first_line = (str(error).splitlines() or [type(error).__name__])[0]
            raise Unavailable(f"the reporting database failed ({first_line}); send the batch again") from error
        return outcomes

    def _ingest_chunk(self, inputs: Sequence[_Input]) -> list[Outcome]:
        registry = current_registry(self._connection)
        if registry.version != self._registry.version:
            self._registry, self._rules = registry, PayloadRules()
        latest = self._clock() + self._clock_skew
        return self._store([self._read(item, latest) for item in inputs])

    def _read(self, item: _Input, latest: datetime) -> _Read:
        """Turn an input into an event that fits its type, or into the dead letter that says why it does not."""
        if isinstance(item, InvalidInputEvent):
            return _unmapped(item)
        try:
            raw = item if isinstance(item, bytes) else encode_event(item)
        except InvalidEvent as error:
            return _unreadable(repr(item).encode("utf-8", "backslashreplace"), error)
        try:
            event = decode_event(raw)
        except InvalidEvent as error:
            return _unreadable(raw, error)
        valid = _Valid(raw, NewEvent(event, content_hash(event), write_json(event.payload)))
        try:
            self._check(event, latest)
        except InvalidEvent as error:
            return _refused(valid, error.reason, error.detail)
        return valid

    def _check(self, event: Event, latest: datetime) -> None:
        resource_type = self._registry.get((event.platform, event.resource_type))
        if resource_type is None:
            name = f"{event.platform}.{event.resource_type}"
            raise InvalidEvent("unknown_resource_type", f"{name!r} is not in the registry; register it, then replay")
        transition = resource_type.transition(event.event_type)
        self._rules.check(event, transition, resource_type)
        if event.timestamp > latest:
            stamp, limit = format_instant(event.timestamp), format_instant(latest)
            raise InvalidEvent("clock_skew", f"stamped {stamp}, in the future: {limit} is the latest by our clock")

    def _store(self, items: list[_Read]) -> list[Outcome]:
        try:
            with self._connection.transaction():
                outcomes, platforms = self._store_in_transaction(items)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # The last line of defence of rule 4: what the server refuses is found by halving, and its neighbours stay.
            if len(items) > 1:
                middle = len(items) // 2
                return self._store(items[:middle]) + self._store(items[middle:])
            if isinstance(items[0], DeadLetter):
                raise
            return self._store([_refused(items[0], "not_storable", str(error).splitlines()[0])])
        self._platforms |= platforms
        return outcomes

    def _store_in_transaction(self, items: list[_Read]) -> tuple[list[Outcome], Mapping[str, str]]:
        platforms = self._platforms_of(items)
        items = [_on_its_platform(item, platforms) for item in items]
        first: dict[Identity, NewEvent] = {}
        for item in items:
            if isinstance(item, _Valid):
                first.setdefault(item.identity, item.new)
        batch_id = store.begin_batch(self._connection)
        stored = store.store(self._connection, batch_id, list(first.values())) if first else 0
        before = self._stored_before(batch_id, items, () if stored == len(first) else first)
        projection.fold(
            self._connection, self._registry, [new for identity, new in first.items() if identity not in before]
        )
        judged = [_judge(item, first, before) for item in items]
        rejected.add(self._connection, [item for item in judged if isinstance(item, DeadLetter)])
        outcomes = [item if isinstance(item, Outcome) else _rejection(item) for item in judged]
        self._record(batch_id, outcomes)
        return outcomes, platforms

    def _platforms_of(self, items: Sequence[_Read]) -> Mapping[str, str]:
        """Return the platform of every cloud of the events, registering clouds that the first event of each tells."""
        told: dict[str, str] = {}
        for item in items:
            if isinstance(item, _Valid):
                told.setdefault(item.new.event.cloud, item.new.event.platform)
        unseen = {cloud: told[cloud] for cloud in sorted(told.keys() - self._platforms.keys())}
        found = registry_store.platforms(self._connection, unseen) if unseen else {}
        if len(found) < len(unseen):
            missing = {cloud: platform for cloud, platform in unseen.items() if cloud not in found}
            registry_store.register_clouds(self._connection, missing)
            found = registry_store.platforms(self._connection, unseen)
        return self._platforms | found

    def _stored_before(
        self, batch_id: int, items: Sequence[_Read], identities: Iterable[Identity]
    ) -> dict[Identity, bytes]:
        """Return what was stored before this batch of some identities, and of all that are to be dead-lettered."""
        asked = {*identities, *((item.cloud, item.event_id) for item in items if isinstance(item, DeadLetter))}
        return store.known(self._connection, asked, but_batch=batch_id) if asked else {}

    def _record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        counts = Counter(outcome.status for outcome in outcomes)
        if counts["accepted"]:
            store.announce(self._connection, batch_id)
        detail: dict[str, int] = {status: counts[status] for status in STATUSES}
        audit.record(self._connection, self._actor, "events.ingest", f"batch {batch_id}", detail)


def _on_its_platform(item: _Read, platforms: Mapping[str, str]) -> _Read:
    if isinstance(item, _Valid):
        event = item.new.event
        platform = platforms[event.cloud]
        if platform != event.platform:
            detail = f"{event.cloud!r} is a cloud of {platform!r}, not of {event.platform!r}"
            return _refused(item, "platform_mismatch", detail)
    return item


def _judge(item: _Read, first: Mapping[Identity, NewEvent], before: Mapping[Identity, bytes]) -> Outcome | DeadLetter:
    """Tell what became of an input: new, a duplicate, a conflict, or a dead letter (rule 1)."""
    if isinstance(item, DeadLetter):
        # What was taken once is no news, even if the rules have changed since and would refuse it now.
        if before.get((item.cloud, item.event_id)) == item.content_hash:
            return Outcome("deduplicated", item.event_id)
        return item
    new, identity = item.new, item.identity
    if identity not in before and first[identity] is new:
        return Outcome("accepted", new.event.event_id)
    if new.content_hash == before.get(identity, first[identity].content_hash):
        return Outcome("deduplicated", new.event.event_id)
    return _refused(item, "event_id_conflict", f"{new.event.cloud!r} has sent this event_id with other content")


def _rejection(letter: DeadLetter) -> Outcome:
    return Outcome("rejected", letter.event_id, letter.reason, letter.detail)


def _refused(item: _Valid, reason: str, detail: str) -> DeadLetter:
    event = item.new.event
    return DeadLetter(
        cloud=event.cloud,
        event_id=event.event_id,
        content_hash=item.new.content_hash,
        reason=reason,
        detail=_one_line(detail),
        raw=item.raw,
        platform=event.platform,
        resource_type=event.resource_type,
    )


def _unreadable(raw: bytes, error: InvalidEvent) -> DeadLetter:
    """Keep what is no event, under the names that it claims if it is at least JSON."""
    try:
        claims = decode_json(raw)
    except InvalidEvent:
        claims = {}
    if not isinstance(claims, dict):
        claims = {}
    return DeadLetter(
        cloud=_claimed(claims.get("cloud")),
        event_id=_claimed(claims.get("event_id")),
        content_hash=hashlib.sha256(raw).digest(),
        reason=error.reason,
        detail=_one_line(error.detail),
        raw=raw,
        platform=_claimed(claims.get("platform")),
        resource_type=_claimed(claims.get("resource_type")),
    )


def _unmapped(item: InvalidInputEvent) -> DeadLetter:
    return DeadLetter(
        cloud=_claimed(item.cloud),
        event_id=_claimed(item.event_id),
        content_hash=hashlib.sha256(item.raw).digest(),
        reason=item.reason,
        detail=_one_line(item.detail),
        raw=item.raw,
        platform=_claimed(item.platform),
        resource_type=_claimed(item.resource_type),
    )


def _claimed(value: Any) -> str:
    """Return a text that can be stored and found again, or nothing."""
    if not isinstance(value, str) or "\0" in value:
        return ""
    try:
        return value if len(value.encode()) <= MAX_TEXT_BYTES else ""
    except UnicodeEncodeError:
        return ""


def _one_line(text: str) -> str:
    """Return a text that can be stored and fits a table."""
    printable = text.encode("utf-8", "replace").decode().replace("\0", "?")
    return " ".join(printable.split())[:MAX_DETAIL]
