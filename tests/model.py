"""An independent model of DESIGN.md rules 8 to 15: what the history of one resource means, by definition.

It is the second opinion that the projection and the SQL are compared with, so it shares nothing with them: no code, and
no method. There is no fold and no window here: each question is answered by looking at the whole history again, which
is quadratic and meant to be. Instants in, exact microseconds out. Rating and the reading of events do not belong here.

Where a rule leaves room, the model decides:

* Void (rule 9) is judged from the last event to the first: whether a delete stands between two creates depends only on
  events after the first of them, so the recursion ends. A void event is absent everywhere; so is the usage it carries.
* An event of effect `ignore` is absent everywhere too.
* An update opens an open-left lifetime only if no create, update or delete came before it in the order. After a delete,
  also one that closed nothing, it is the anomaly `after_delete`.
* A delete before any lifetime is `delete_without_life`, each of several. After one it is nothing; but if it carries
  usage, that usage has no interval to go to and is `usage_without_interval`.
* Usage before any lifetime is `usage_without_life`, or `after_delete` if a delete came before. An event is at most one
  anomaly. In a lifetime of zero length every event that carries usage is `usage_without_interval`; a `usage` event is
  taken to carry some.
* Zero-length lifetimes are lifetimes: they count in the numbering and may be open-left.
* Of several deletes at the instant of a close, the first in byte order of ids closes; the others close nothing.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any

RANKS = ("create", "update", "usage", "delete")
FAR_FUTURE = datetime(9999, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """One event of one resource, as far as its timeline is concerned."""

    timestamp: datetime
    event_id: str
    effect: str                                 # create, update, usage, delete or ignore
    source: str = "collector"
    project_id: str = "project"
    size: Mapping[str, Any] | None = None       # None leaves it unchanged; read from create and update only
    state: str | None = None                    # payload.state, or else the implied one; likewise
    usage: Mapping[str, Decimal] | None = None  # counter increments; any event may carry them


@dataclass(frozen=True)
class Configuration:
    """What splits a timeline: a change of any of these."""

    project_id: str
    state: str
    size: Mapping[str, Any]


@dataclass(frozen=True)
class Lifetime:
    """The resource's n-th life, counted from 1; closed_at is None while it is open."""

    no: int
    opened_at: datetime
    closed_at: datetime | None
    open_left: bool


@dataclass(frozen=True)
class Interval:
    """A half-open stretch of one lifetime with one configuration; to_ts is None while it lasts."""

    lifetime_no: int
    from_ts: datetime
    to_ts: datetime | None
    configuration: Configuration


@dataclass(frozen=True)
class Anomaly:
    """An event that is reported and not counted."""

    kind: str
    event_id: str


@dataclass(frozen=True)
class Current:
    """The last configuration of the last lifetime."""

    created_at: datetime
    deleted_at: datetime | None
    configuration: Configuration


@dataclass(frozen=True)
class Usage:
    """An interval clipped to a period, with the sums of the counters that fell into it."""

    lifetime_no: int
    from_ts: datetime
    to_ts: datetime
    configuration: Configuration
    counters: Mapping[str, Decimal] = field(default_factory=dict)

    @property
    def length_us(self) -> int:
        """The exact length in microseconds."""
        return (self.to_ts - self.from_ts) // timedelta(microseconds=1)


class Model:
    """Everything that rules 8 to 15 say about the history of one resource, in whatever order it arrived."""

    def __init__(self, arrived: Iterable[Record]) -> None:
        by_id = {record.event_id: record for record in arrived}
        judged = sorted((record for record in by_id.values() if record.effect != "ignore"), key=_position)
        void = _void_places(judged)
        self.history: Sequence[Record] = [record for at, record in enumerate(judged) if at not in void]
        self._open_before_known: dict[datetime, bool] = {}

    @cached_property
    def lifetimes(self) -> list[Lifetime]:
        """All lives, those of zero length included, in order."""
        openings = [instant for instant in self._instants if self._opens(instant)]
        return [
            Lifetime(no, instant, self._closed_at(instant), "create" not in self._effects(instant))
            for no, instant in enumerate(openings, start=1)
        ]

    @cached_property
    def intervals(self) -> list[Interval]:
        """The timeline: each life cut at each of its instants, then equal neighbours joined (rule 10)."""
        return [interval for life in self.lifetimes for interval in _coalesced(self._pieces(life))]

    @cached_property
    def anomalies(self) -> list[Anomaly]:
        """What is reported and not counted, in order."""
        found = [(self._anomaly(record), record) for record in self.history]
        return [Anomaly(kind, record.event_id) for kind, record in found if kind]

    @cached_property
    def current(self) -> Current | None:
        """The configuration after the last event of the last life; None if the resource never lived."""
        if not self.lifetimes:
            return None
        life = self.lifetimes[-1]
        return Current(life.opened_at, life.closed_at, self._configuration(life, FAR_FUTURE))

    def usage(self, start: datetime, end: datetime) -> list[Usage]:
        """The usage records of the half-open period from start to end (rules 14 and 15)."""
        return [
            Usage(interval.lifetime_no, from_ts, to_ts, interval.configuration, self._counters(life, from_ts, to_ts))
            for interval in self.intervals
            for life in [self.lifetimes[interval.lifetime_no - 1]]
            for from_ts in [max(interval.from_ts, start)]
            for to_ts in [min(interval.to_ts or FAR_FUTURE, end)]
            if from_ts < to_ts
        ]

    # Instants: is the resource open or closed before one, and does a life begin or end there?

    @cached_property
    def _instants(self) -> list[datetime]:
        return sorted({record.timestamp for record in self.history})

    def _effects(self, instant: datetime) -> set[str]:
        return {record.effect for record in self.history if record.timestamp == instant}

    def _open_before(self, instant: datetime) -> bool:
        if instant not in self._open_before_known:
            earlier = [other for other in self._instants if other < instant]
            self._open_before_known[instant] = bool(earlier) and self._open_after(earlier[-1])
        return self._open_before_known[instant]

    def _open_after(self, instant: datetime) -> bool:
        effects = self._effects(instant)
        if {"create", "delete"} <= effects:
            return self._open_before(instant)
        if "delete" in effects:
            return False
        return "create" in effects or self._opens_left(instant) or self._open_before(instant)

    def _opens(self, instant: datetime) -> bool:
        effects = self._effects(instant)
        if self._open_before(instant):
            return {"create", "delete"} <= effects
        return "create" in effects or self._opens_left(instant)

    def _opens_left(self, instant: datetime) -> bool:
        before = {record.effect for record in self.history if record.timestamp < instant}
        return "update" in self._effects(instant) and before <= {"usage"}

    def _closed_at(self, opened_at: datetime) -> datetime | None:
        if "delete" in self._effects(opened_at) and not self._open_before(opened_at):
            return opened_at
        deletes = [r.timestamp for r in self.history if r.effect == "delete" and r.timestamp > opened_at]
        return min(deletes, default=None)

    # Membership: to which life does an event belong?

    def _belongs(self, record: Record, life: Lifetime) -> bool:
        at = record.timestamp
        ends = life.closed_at == at
        if not life.opened_at <= at <= (life.closed_at or FAR_FUTURE):
            return False
        if record.effect == "delete":
            return ends and record.event_id == self._first_delete(at)
        if record.effect == "usage":
            return at > life.opened_at or not self._open_before(at)
        return at == life.opened_at or not ends or "create" not in self._effects(at)

    def _first_delete(self, instant: datetime) -> str:
        ids = [r.event_id for r in self.history if r.effect == "delete" and r.timestamp == instant]
        return min(ids, key=str.encode)

    @cached_property
    def _lives(self) -> dict[str, Lifetime]:
        return {
            record.event_id: life for record in self.history for life in self.lifetimes if self._belongs(record, life)
        }

    def _members(self, life: Lifetime) -> list[Record]:
        return [record for record in self.history if self._lives.get(record.event_id) == life]

    # What a life looks like, and what was used in it.

    def _configuration(self, life: Lifetime, instant: datetime) -> Configuration:
        changes = [
            record
            for record in self._members(life)
            if record.effect in ("create", "update") and record.timestamp <= instant
        ]
        sizes = [record.size for record in changes if record.size is not None]
        states = [record.state for record in changes if record.state is not None]
        return Configuration(changes[-1].project_id, [*["unknown"], *states][-1], [*[{}], *sizes][-1])

    def _pieces(self, life: Lifetime) -> list[Interval]:
        cuts = sorted({record.timestamp for record in self._members(life)})
        ends = [*cuts[1:], *([None] if life.closed_at is None else [])]
        return [
            Interval(life.no, cut, end, self._configuration(life, cut)) for cut, end in zip(cuts, ends, strict=False)
        ]

    def _counters(self, life: Lifetime, from_ts: datetime, to_ts: datetime) -> dict[str, Decimal]:
        counters: dict[str, Decimal] = {}
        for record in self._members(life):
            at_the_close = record.timestamp == life.closed_at == to_ts
            if from_ts <= record.timestamp < to_ts or at_the_close:
                for name, increment in (record.usage or {}).items():
                    counters[name] = counters.get(name, Decimal(0)) + increment
        return counters

    def _anomaly(self, record: Record) -> str | None:
        life = self._lives.get(record.event_id)
        carries_usage = record.effect == "usage" or bool(record.usage)
        if life is not None:
            return "usage_without_interval" if carries_usage and life.opened_at == life.closed_at else None
        unborn = all(life.opened_at > record.timestamp for life in self.lifetimes)
        if record.effect == "delete":
            if unborn:
                return "delete_without_life"
            return "usage_without_interval" if carries_usage else None
        return "usage_without_life" if record.effect == "usage" and unborn else "after_delete"


def _position(record: Record) -> tuple[datetime, int, bytes]:
    return record.timestamp, RANKS.index(record.effect), record.event_id.encode()


def _void_places(judged: Sequence[Record]) -> set[int]:
    """The places of void events, judged from the last to the first."""
    void: set[int] = set()
    for at in reversed(range(len(judged))):
        if _is_denied(judged[at], [judged[later] for later in range(at + 1, len(judged)) if later not in void]):
            void.add(at)
    return void


def _is_denied(record: Record, later: Sequence[Record]) -> bool:
    """Whether the collector contradicts a synthetic event before the opposite happens (rule 9)."""
    if record.source == "collector" or record.effect not in ("create", "delete"):
        return False
    denied_by = ("create",) if record.effect == "create" else ("update", "usage", "delete")
    settled_by = "delete" if record.effect == "create" else "create"
    settled = [at for at, other in enumerate(later) if other.effect == settled_by]
    until = settled[0] if settled else len(later)
    return any(other.source == "collector" and other.effect in denied_by for other in later[:until])


def _coalesced(pieces: Sequence[Interval]) -> list[Interval]:
    """Join neighbours until no two are equal."""
    for at in range(1, len(pieces)):
        left, right = pieces[at - 1], pieces[at]
        if left.configuration == right.configuration:
            joined = Interval(left.lifetime_no, left.from_ts, right.to_ts, left.configuration)
            return _coalesced([*pieces[: at - 1], joined, *pieces[at + 1 :]])
    return list(pieces)
