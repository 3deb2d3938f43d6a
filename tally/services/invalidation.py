"""What a new definition of a resource type would do to the events that are stored: the reasons to refuse it.

Exact for up to EVENTS_READ events of the type and VALUES_READ different values of their sizes; beyond these, the
answer says so. An event that is taken in meanwhile was judged by the former definition.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tally.domain.errors import InvalidEvent
from tally.domain.event import Event
from tally.domain.resource_type import Effect, ResourceType, Transition
from tally.services.validation import PayloadRules
from tally.store.database import Connection
from tally.store.reporting import stored_payloads as store

EVENTS_READ = 5_000_000
VALUES_READ = 20_000
EXAMPLES = 3

_CONFIGURES = (Effect.CREATE, Effect.UPDATE)


@dataclass(slots=True)
class Invalidation:
    """One line for each way in which stored events would be invalid.

    ``broken`` are those that nobody can accept, because no timeline could be derived from the events any more.
    """

    reasons: list[str] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is read, so that the work is bounded: events of the type, and different values of their sizes."""

    events: int = EVENTS_READ
    values: int = VALUES_READ


@dataclass(frozen=True, slots=True)
class _Change:
    """A change of the definition of one resource type, where its events lie, and how much of them is read."""

    former: Sequence[ResourceType]  # all versions, the one in force last
    new: ResourceType
    clouds: Sequence[str] = ()
    bounds: Bounds = Bounds()

    @property
    def old(self) -> ResourceType:
        return self.former[-1]

    def known_before(self) -> frozenset[str]:
        """Event types that some version knew: only of these events can be stored."""
        return frozenset(name for version in self.former for name in version.lifecycle)

    def before(self, event_type: str) -> Transition | None:
        return self.old.lifecycle.get(event_type)

    def after(self, event_type: str) -> Transition | None:
        return self.new.lifecycle.get(event_type)

    def unread_before(self, event_type: str) -> bool:
        """Whether nobody has judged the payloads of its events: the type was unknown or ignored."""
        return (self.before(event_type) or _IGNORED).effect is Effect.IGNORE


_IGNORED = Transition(Effect.IGNORE)


def changed_transitions(former: Sequence[ResourceType], new: ResourceType) -> dict[str, Transition | None]:
    """Return what the version in force says of the event types of which ``new`` says something else."""
    change = _Change(former, new)
    return {name: change.before(name) for name in change.known_before() if change.before(name) != change.after(name)}


def find_invalidated(
    connection: Connection, former: Sequence[ResourceType], new: ResourceType, bounds: Bounds = Bounds()
) -> Invalidation:
    """Hold a new definition to the stored events of its type; ``former`` are all versions, the one in force last."""
    found = Invalidation()
    clouds = store.clouds_of(connection, new.platform)
    if not former or not clouds:
        return found
    change = _Change(former, new, clouds, bounds)
    found.reasons += _of_lifecycle(connection, change)
    if _may_judge_differently(change):
        _judge_sizes(connection, change, found)
        _judge_states(connection, change, found)
        _judge_usage(connection, change, found)
    if found.reasons or found.broken or _may_judge_differently(change):
        found.reasons += _of_the_bound(connection, change)
    return found


def _of_lifecycle(connection: Connection, change: _Change) -> Iterable[str]:
    changed = changed_transitions(change.former, change.new)
    if not changed:
        return
    counts = store.event_types(connection, change.clouds, change.new.resource_type, changed, change.bounds.events)
    for event_type, events in sorted(counts.items()):
        before, after = (_told(change.before(event_type)), _told(change.after(event_type)))
        yield f"{_events(events)} of type {event_type!r}: {before} becomes {after}"


def _may_judge_differently(change: _Change) -> bool:
    """Whether some payload that was fine may not be fine any more."""
    old, new = change.old, change.new
    if (old.size, old.descriptive, old.counters) != (new.size, new.descriptive, new.counters):
        return True
    return any(
        (change.after(name) or _IGNORED).effect is not Effect.IGNORE
        for name in changed_transitions(change.former, change.new)
    )


def _judge_sizes(connection: Connection, change: _Change, found: Invalidation) -> None:
    wanted = _types(change, lambda effect: effect in _CONFIGURES)
    held = store.values(
        connection,
        change.clouds,
        change.new.resource_type,
        "size",
        wanted,
        bound=change.bounds.events,
        limit=change.bounds.values + 1,
    )
    if len(held) > change.bounds.values:
        found.reasons.append(f"only the {change.bounds.values} most frequent sizes were judged; there are more")
    judged = _Judged(change)
    for event_type, size, events in held[: change.bounds.values]:
        if not isinstance(size, dict):
            found.broken.append(f"{_events(events)} of type {event_type!r} would be read, and their size is no object")
        else:
            judged.judge(event_type, {"size": size}, events)
    found.reasons += judged.lines("sizes")


def _judge_states(connection: Connection, change: _Change, found: Invalidation) -> None:
    """Only those that nobody has judged: a state is judged alike by all definitions."""
    wanted = [name for name in _types(change, lambda effect: effect in _CONFIGURES) if change.unread_before(name)]
    if not wanted:
        return
    for event_type, state, events in store.values(
        connection,
        change.clouds,
        change.new.resource_type,
        "state",
        wanted,
        bound=change.bounds.events,
        limit=change.bounds.values,
    ):
        if not isinstance(state, str) or not state:
            found.broken.append(f"{_events(events)} of type {event_type!r} would be read, and their state is no text")


def _judge_usage(connection: Connection, change: _Change, found: Invalidation) -> None:
    wanted = _types(change, lambda effect: effect is not Effect.IGNORE)
    judged = _Judged(change)
    for event_type, names, broken, events in store.counters(
        connection,
        change.clouds,
        change.new.resource_type,
        wanted,
        bound=change.bounds.events,
        limit=change.bounds.values,
    ):
        if broken:
            what = "their usage is no object of non-negative numbers"
            found.broken.append(f"{_events(events)} of type {event_type!r} would be read, and {what}")
        else:
            judged.judge(event_type, {"usage": dict.fromkeys(names, 0)}, events)
    found.reasons += judged.lines("usage")


def _of_the_bound(connection: Connection, change: _Change) -> Iterable[str]:
    stored = store.count_up_to(connection, change.clouds, change.new.resource_type, change.bounds.events + 1)
    if stored > change.bounds.events:
        yield f"only the first {change.bounds.events} events of the type were read; there are more"


class _Judged:
    """Payloads held to the old definition and to the new one; those that only the new one refuses are told."""

    def __init__(self, change: _Change) -> None:
        self._change = change
        self._rules = PayloadRules()
        self._events = 0
        self._faults: dict[str, None] = {}  # in the order of their frequency

    def judge(self, event_type: str, payload: Mapping[str, Any], events: int) -> None:
        """Judge a payload that so many events hold."""
        new_fault = self._fault(event_type, payload, self._change.new)
        if new_fault and not self._fault(event_type, payload, self._change.old):
            self._events += events
            self._faults[new_fault] = None

    def lines(self, what: str) -> Iterable[str]:
        """Tell in one line what would be refused."""
        if self._faults:
            shown = "; ".join(list(self._faults)[:EXAMPLES])
            more = f"; and {len(self._faults) - EXAMPLES} more" if len(self._faults) > EXAMPLES else ""
            yield f"{what} of {_events(self._events)} would be refused: {shown}{more}"

    def _fault(self, event_type: str, payload: Mapping[str, Any], resource_type: ResourceType) -> str:
        event = Event("x", _ANY_TIME, event_type, "x", "x", "x", "x", "x", "collector", payload)
        try:
            self._rules.check(event, resource_type.lifecycle.get(event_type, _IGNORED), resource_type)
        except InvalidEvent as error:
            return error.detail
        return ""


_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)


def _types(change: _Change, wanted: Callable[[Effect], bool]) -> list[str]:
    """Return the event types, of which events can be stored, whose new effect is a wanted one."""
    return sorted(name for name in change.known_before() if wanted((change.after(name) or _IGNORED).effect))


def _told(transition: Transition | None) -> str:
    if transition is None:
        return "unknown"
    return f"{transition.effect}, state {transition.state}" if transition.state else str(transition.effect)


def _events(count: int) -> str:
    return f"{count} stored event{'' if count == 1 else 's'}"
