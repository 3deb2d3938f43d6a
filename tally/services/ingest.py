"""Ingestion: from the bytes of a sender to stored events, an up-to-date projection and dead letters (rules 1 to 7).

One chunk of a batch is one transaction, in which everybody takes locks in the same order: registry, clouds, identities,
resources, projection, dead letters. So any number of processes can bring the same events at once without a deadlock,
and a chunk that fails leaves nothing behind: the sender repeats it, and what was stored is a duplicate.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Literal, NamedTuple
from weakref import WeakKeyDictionary

import psycopg

from tally.domain.errors import InvalidEvent, Unavailable
from tally.domain.event import (
    MAX_EVENT_BYTES,
    MAX_KEPT_BYTES,
    MAX_TEXT_BYTES,
    Element,
    Event,
    content_hash,
    decode_element,
    encode_event,
    plain_json,
)
from tally.domain.instants import format_instant
from tally.domain.principal import Scope
from tally.domain.project import is_cloud_name
from tally.domain.resource_type import SYNTHETIC_TRANSITIONS, Transition
from tally.services import projection
from tally.services.registry import Registry, current_registry
from tally.services.validation import PayloadRules
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.reporting import audit, rejected
from tally.store.reporting import events as store
from tally.store.reporting import registry as registry_store
from tally.store.reporting.events import Identity, NewEvent
from tally.store.reporting.rejected import TALLY_FORMAT, DeadLetter

EVENTS_PER_TRANSACTION = 1000
MAX_DETAIL = 500

# What the audit log tells of refused events, so that a sender cannot fill it.
MAX_AUDITED_NAMES = 10
MAX_AUDITED_TEXT = 100

Status = Literal["accepted", "deduplicated", "rejected"]
STATUSES: tuple[Status, ...] = ("accepted", "deduplicated", "rejected")


@dataclass(slots=True)
class Outcome:
    """What became of one input. ``reason`` is a stable word and ``detail`` one line, both only of a rejection.

    ``event`` is what was read; None if the input is no event, or one that its sender may not send.
    """

    status: Status
    event_id: str
    reason: str = ""
    detail: str = ""
    event: Event | None = field(default=None, repr=False)


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
    format: str = TALLY_FORMAT


class _Valid(NamedTuple):
    """An input that is an event and fits its type."""

    raw: bytes
    new: NewEvent
    transition: Transition
    identity: Identity


class _Dead(NamedTuple):
    """An input that becomes a dead letter, and the event that it is, if it is one."""

    letter: DeadLetter
    event: Event | None = None


class _Forbidden(NamedTuple):
    """An input that its sender may not send, and the installation that it names. Nothing of it is kept."""

    installation: str
    event_id: str
    detail: str
    synthetic: bool = False


_Read = _Valid | _Dead | _Forbidden | Outcome
_Input = bytes | Element | Event | InvalidInputEvent


class _RegistryMovedError(Exception):
    """The inputs were judged by definitions that no longer hold: they are judged again. Nothing was stored."""


@dataclass(slots=True)
class _Memory:
    """What is remembered of a database from one batch to the next."""

    registry: Registry = field(default_factory=lambda: Registry(-1, {}))
    rules: PayloadRules = field(default_factory=PayloadRules)
    platforms: dict[str, str] = field(default_factory=dict)  # committed rows of reporting.clouds, which never change


_memories: WeakKeyDictionary[Connection, _Memory] = WeakKeyDictionary()


class Ingest:
    """The door for events into the reporting database, used by one thread at a time.

    What it remembers belongs to the connection: a door for each request costs nothing.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        clock: Callable[[], datetime],
        clock_skew: timedelta,
        actor: str,
        scope: Scope | None = None,
    ) -> None:
        """Take events over ``connection`` (in autocommit) on behalf of ``actor``, whom the audit log names.

        ``clock`` tells the present, and an event may be stamped up to ``clock_skew`` after it. With a ``scope``, the
        sender is a collector: what comes under the name of another cloud, or as a conclusion of reconciliation, is
        rejected as ``forbidden`` and audited, and leaves no dead letter.
        """
        self._connection = connection
        self._clock = clock
        self._clock_skew = clock_skew
        self._actor = actor
        self._scope = scope
        self._memory = _memories.setdefault(connection, _Memory())

    def ingest(self, inputs: Sequence[bytes | Element]) -> list[Outcome]:
        """Take events, as JSON texts or read from them, and return one outcome per input, in the order of the inputs.

        Raises:
            Unavailable: if the database fails; what was committed by then is a duplicate when the batch comes again.
        """
        return self._ingest(inputs)

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
        latest = self._clock() + self._clock_skew
        while True:
            try:
                return self._store([self._read(item, latest) for item in inputs])
            except _RegistryMovedError:
                self._memory.registry, self._memory.rules = current_registry(self._connection), PayloadRules()

    def _read(self, item: _Input, latest: datetime) -> _Read:
        """Turn an input into an event that fits its type, or into what says why it does not."""
        if isinstance(item, InvalidInputEvent):
            return self._unreadable(item)
        if isinstance(item, Event):
            try:
                element = decode_element(encode_event(item))
            except InvalidEvent as error:
                return self._unreadable(_unwritable(item, error))
        else:
            element = decode_element(item) if isinstance(item, bytes) else item
        try:
            event = element.event()
        except InvalidEvent as error:
            return self._unreadable(_no_event(element, error))
        if self._scope is not None and (forbidden := _forbidden(event, self._scope)):
            return forbidden
        new = _new(event)
        try:
            transition = self._check(event, latest)
        except InvalidEvent as error:
            return _refused(element.raw, new, error.reason, error.detail)
        return _Valid(element.raw, new, transition, (event.cloud, event.event_id))

    def _unreadable(self, item: InvalidInputEvent) -> _Read:
        """Keep what is no event under the names that it claims, or under those of its sender's cloud."""
        scope = self._scope
        cloud, platform = item.cloud, item.platform
        if scope is not None:
            if cloud not in ("", scope.cloud):
                return _foreign(platform, cloud, item.event_id, scope)
            platform, cloud = scope
        if len(item.raw) > MAX_KEPT_BYTES:
            detail = f"{len(item.raw)} bytes, which were not kept; an event has at most {MAX_EVENT_BYTES}"
            return Outcome("rejected", _claimed(item.event_id), "too_large", detail)
        return _Dead(
            DeadLetter(
                cloud=_claimed(cloud),
                event_id=_claimed(item.event_id),
                content_hash=hashlib.sha256(item.raw).digest(),
                reason=item.reason,
                detail=_one_line(item.detail),
                raw=item.raw,
                platform=_claimed(platform),
                resource_type=_claimed(item.resource_type),
                format=item.format,
            )
        )

    def _check(self, event: Event, latest: datetime) -> Transition:
        """Return what an event does, if it fits its type and its time has come."""
        resource_type = self._memory.registry.types.get((event.platform, event.resource_type))
        if resource_type is None:
            name = f"{event.platform}.{event.resource_type}"
            raise InvalidEvent("unknown_resource_type", f"{name!r} is not in the registry; register it, then replay")
        transition = resource_type.transition(event.event_type)
        if event.event_type in SYNTHETIC_TRANSITIONS and not event.synthetic:
            # It would never give way to what the collector tells (rule 9).
            raise InvalidEvent("invalid_event", f"{event.event_type!r} is only for source 'reconciliation'")
        self._memory.rules.check(event, transition, resource_type)
        if event.timestamp > latest:
            stamp, limit = format_instant(event.timestamp), format_instant(latest)
            raise InvalidEvent("clock_skew", f"stamped {stamp}, in the future: {limit} is the latest by our clock")
        return transition

    def _store(self, items: list[_Read]) -> list[Outcome]:
        try:
            with self._connection.transaction():
                outcomes, platforms = self._store_in_transaction(items)
        except (psycopg.DataError, psycopg.IntegrityError) as error:
            # The last line of defence of rule 4: what the server refuses is found by halving, and its neighbours stay.
            if len(items) > 1:
                middle = len(items) // 2
                return self._store(items[:middle]) + self._store(items[middle:])
            if not isinstance(items[0], _Valid):
                raise
            return self._store([_refused(items[0].raw, items[0].new, "not_storable", str(error).splitlines()[0])])
        self._memory.platforms |= platforms
        return outcomes

    def _store_in_transaction(self, items: list[_Read]) -> tuple[list[Outcome], Mapping[str, str]]:
        batch_id, registry_version = store.begin_batch(self._connection)
        if registry_version != self._memory.registry.version:
            raise _RegistryMovedError
        platforms = self._platforms_of(items)
        items = [_on_its_platform(item, platforms) for item in items]
        first: dict[Identity, _Valid] = {}
        for item in items:
            if isinstance(item, _Valid):
                first.setdefault(item.identity, item)
        stored = store.store(self._connection, batch_id, [item.new for item in first.values()]) if first else 0
        before = self._stored_before(batch_id, items, () if stored == len(first) else first)
        projection.fold(
            self._connection,
            self._memory.registry,
            [(item.new.event, item.transition) for identity, item in first.items() if identity not in before],
        )
        judged = [_judge(item, first, before) for item in items]
        rejected.add(self._connection, [item.letter for item in judged if isinstance(item, _Dead)])
        outcomes = [_outcome(item) for item in judged]
        self._record(batch_id, outcomes)
        self._record_forbidden(batch_id, [item for item in judged if isinstance(item, _Forbidden)])
        return outcomes, platforms

    def _platforms_of(self, items: Sequence[_Read]) -> Mapping[str, str]:
        """Return the platform of every cloud of the events, registering those that the first event of each tells.

        A cloud that nobody has registered and that may not bear its name has none.
        """
        told: dict[str, str] = {}
        for item in items:
            if isinstance(item, _Valid):
                event = item.new.event
                told.setdefault(event.cloud, event.platform)
        known = self._memory.platforms
        unseen = {cloud: told[cloud] for cloud in sorted(told.keys() - known.keys())}
        found = registry_store.platforms(self._connection, unseen) if unseen else {}
        if len(found) < len(unseen):
            missing = {
                cloud: platform for cloud, platform in unseen.items() if cloud not in found and is_cloud_name(cloud)
            }
            for cloud in registry_store.register_clouds(self._connection, missing):
                audit.record(self._connection, self._actor, "cloud.register", cloud, {"platform": missing[cloud]})
            found = registry_store.platforms(self._connection, unseen)
        return known | found

    def _stored_before(
        self, batch_id: int, items: Sequence[_Read], identities: Iterable[Identity]
    ) -> dict[Identity, bytes]:
        """Return what was stored before this batch of some identities, and of all that are to be dead-lettered."""
        letters = (item.letter for item in items if isinstance(item, _Dead))
        asked = {*identities, *((letter.cloud, letter.event_id) for letter in letters)}
        return store.known(self._connection, asked, but_batch=batch_id) if asked else {}

    def _record(self, batch_id: int, outcomes: Sequence[Outcome]) -> None:
        counts = Counter(outcome.status for outcome in outcomes)
        detail: dict[str, int] = {status: counts[status] for status in STATUSES}
        with self._connection.pipeline():
            if counts["accepted"]:
                store.announce(self._connection, batch_id)
            audit.record(self._connection, self._actor, "events.ingest", f"batch {batch_id}", detail)

    def _record_forbidden(self, batch_id: int, items: Sequence[_Forbidden]) -> None:
        if not items:
            return
        installations = Counter(_audited(item.installation) for item in items)
        detail = {
            "scope": self._scope._asdict() if self._scope else None,
            "refused": len(items),
            "synthetic": sum(item.synthetic for item in items),
            "installations": dict(installations.most_common(MAX_AUDITED_NAMES)),
            "event_ids": [_audited(item.event_id) for item in items[:MAX_AUDITED_NAMES]],
        }
        audit.record(self._connection, self._actor, "events.refuse", f"batch {batch_id}", detail)


def _on_its_platform(item: _Read, platforms: Mapping[str, str]) -> _Read:
    if isinstance(item, _Valid):
        event = item.new.event
        platform = platforms.get(event.cloud)
        if platform is None:
            detail = f"cloud {event.cloud[:60]!r} holds a slash or an invisible character; choose another name"
            return _refused(item.raw, item.new, "invalid_event", detail)
        if platform != event.platform:
            detail = f"{event.cloud!r} is a cloud of {platform!r}, not of {event.platform!r}"
            return _refused(item.raw, item.new, "platform_mismatch", detail)
    return item


def _judge(item: _Read, first: Mapping[Identity, _Valid], before: Mapping[Identity, bytes]) -> _Read:
    """Tell what became of an input: new, a duplicate, a conflict, or a dead letter (rule 1)."""
    if isinstance(item, _Dead):
        # What was taken once is no news, even if the rules have changed since and would refuse it now.
        letter = item.letter
        if before.get((letter.cloud, letter.event_id)) == letter.content_hash:
            return Outcome("deduplicated", letter.event_id, event=item.event)
        return item
    if not isinstance(item, _Valid):
        return item
    new, identity = item.new, item.identity
    event = new.event
    if identity not in before and first[identity] is item:
        return Outcome("accepted", event.event_id, "", "", event)
    if new.content_hash == before.get(identity, first[identity].new.content_hash):
        return Outcome("deduplicated", event.event_id, "", "", event)
    return _refused(item.raw, new, "event_id_conflict", f"{event.cloud!r} has sent this event_id with other content")


def _outcome(item: _Read) -> Outcome:
    if isinstance(item, Outcome):
        return item
    if isinstance(item, _Forbidden):
        return Outcome("rejected", item.event_id, "forbidden", item.detail)
    assert isinstance(item, _Dead)
    letter = item.letter
    return Outcome("rejected", letter.event_id, letter.reason, letter.detail, item.event)


def _new(event: Event) -> NewEvent:
    plain = plain_json(event.payload)
    if plain is not None:
        return NewEvent(event, content_hash(event, plain), plain)
    return NewEvent(event, content_hash(event), write_json(event.payload))


def _refused(raw: bytes, new: NewEvent, reason: str, detail: str) -> _Dead:
    event = new.event
    letter = DeadLetter(
        cloud=event.cloud,
        event_id=event.event_id,
        content_hash=new.content_hash,
        reason=reason,
        detail=_one_line(detail),
        raw=raw,
        platform=event.platform,
        resource_type=event.resource_type,
    )
    return _Dead(letter, event)


def _foreign(platform: str, cloud: str, event_id: str, scope: Scope) -> _Forbidden:
    installation = f"{platform}/{cloud}"
    detail = f"this sender sends for {scope.platform}/{scope.cloud}, not for {installation}"
    return _Forbidden(installation, _claimed(event_id), _one_line(detail))


def _forbidden(event: Event, scope: Scope) -> _Forbidden | None:
    """Say why a collector may not send an event.

    What Tally concludes gives way to what collectors tell (rule 9): a collector that says it would give way, too.
    """
    if (event.platform, event.cloud) != scope:
        return _foreign(event.platform, event.cloud, event.event_id, scope)
    if not event.synthetic:
        return None
    detail = "source 'reconciliation' is what Tally concludes from a listing; a collector sends 'collector', or nothing"
    return _Forbidden(f"{event.platform}/{event.cloud}", event.event_id, detail, synthetic=True)


def _no_event(element: Element, error: InvalidEvent) -> InvalidInputEvent:
    """Tell of what is no event what it claims, if it is at least JSON."""
    claims = element.value if isinstance(element.value, dict) else {}
    cloud, event_id, platform, resource_type = (
        value if isinstance(value := claims.get(name), str) else ""
        for name in ("cloud", "event_id", "platform", "resource_type")
    )
    return InvalidInputEvent(element.raw, error.reason, error.detail, cloud, event_id, platform, resource_type)


def _unwritable(event: Event, error: InvalidEvent) -> InvalidInputEvent:
    raw = repr(event).encode("utf-8", "backslashreplace")
    claims = (event.cloud, event.event_id, event.platform, event.resource_type)
    return InvalidInputEvent(raw, error.reason, error.detail, *claims)


def _claimed(text: str) -> str:
    """Return a text that can be stored and found again, or nothing."""
    if "\0" in text:
        return ""
    try:
        return text if len(text.encode()) <= MAX_TEXT_BYTES else ""
    except UnicodeEncodeError:
        return ""


def _audited(text: str) -> str:
    return _one_line(text)[:MAX_AUDITED_TEXT]


def _one_line(text: str) -> str:
    """Return a text that can be stored and fits a table."""
    printable = text.encode("utf-8", "replace").decode().replace("\0", "?")
    return " ".join(printable.split())[:MAX_DETAIL]
