"""The whole life of one resource: its lifetimes, cut into intervals of constant configuration (rules 8 to 10).

This is the timeline in plain Python, for a reader who asks for one resource; the fold itself is that of timeline.py.
The timelines of all resources are derived by dbt (int_resource_intervals), and tests hold the two to each other.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby, pairwise
from typing import Any, Literal

from tally.domain.event import canonical_json
from tally.domain.resource_type import Effect
from tally.domain.timeline import RANK_OF_RECREATION, Projection, Step, advance, without_void

AnomalyKind = Literal["after_delete", "delete_without_life", "usage_without_life", "usage_without_interval"]

_CONFIGURES = frozenset({Effect.CREATE, Effect.UPDATE})


@dataclass(frozen=True, slots=True)
class Interval:
    """A half-open stretch of one lifetime with one configuration; ``to_ts`` is None while it lasts.

    ``ended_by`` is the first event of the instant that ends it: where an open resource is re-created within one
    instant, that is the creation. It is None while the interval lasts.
    """

    from_ts: datetime
    to_ts: datetime | None
    project_id: str
    state: str
    size: dict[str, Any]
    caused_by: Step
    ended_by: Step | None

    @property
    def has_length(self) -> bool:
        """Whether anything can have been used in it."""
        return self.from_ts != self.to_ts


@dataclass(frozen=True, slots=True)
class Lifetime:
    """The resource's n-th life, counted from 1; ``closed_at`` is None while it is open.

    ``configurations`` are its intervals and, if it is of no length, its last configuration: what the projection shows.
    ``uses`` are its events that carry usage, in order.
    """

    no: int
    opened_at: datetime
    closed_at: datetime | None
    open_left: bool  # its first event is an update: when it began is not known
    configurations: tuple[Interval, ...]
    uses: tuple[Step, ...] = ()

    @property
    def intervals(self) -> list[Interval]:
        """The intervals of the timeline; none in a life of zero length."""
        return [interval for interval in self.configurations if interval.has_length]


@dataclass(frozen=True, slots=True)
class Anomaly:
    """An event that is reported and not counted."""

    kind: AnomalyKind
    event: Step


@dataclass(frozen=True, slots=True)
class Lifecycle:
    """What the history of a resource means. ``current`` is None for who may not see it."""

    current: Projection | None
    lifetimes: tuple[Lifetime, ...]
    anomalies: tuple[Anomaly, ...]  # in total order


def lifecycle(steps: Iterable[Step]) -> Lifecycle | None:
    """Read a whole history, in whatever order it is given; None if there is nothing to read."""
    history = sorted((step for step in steps if step.effect is not Effect.IGNORE), key=lambda step: step.order)
    reading = _Reading()
    for step, recreates in _in_order_of_instants(without_void(history), reading):
        reading.take(step, recreates=recreates)
    if reading.row is None:
        return None
    return Lifecycle(
        replace(reading.row, has_synthetic=any(step.synthetic for step in history)),
        tuple(life.closed() for life in reading.lives),
        tuple(sorted(reading.anomalies, key=lambda anomaly: anomaly.event.order)),
    )


def seen_by(whole: Lifecycle, sees: Callable[[str], bool]) -> Lifecycle | None:
    """Return the part of a lifecycle that belongs to the projects that ``sees`` says yes to; None if nothing does.

    A life is shown from the beginning of the first interval that is seen to the end of the last one. An event that
    belongs to another project is not named, also not where it ends an interval.
    """
    current = whole.current if whole.current is not None and sees(whole.current.project_id) else None
    lifetimes = tuple(part for life in whole.lifetimes if (part := _seen_life(life, sees)) is not None)
    anomalies = tuple(anomaly for anomaly in whole.anomalies if sees(anomaly.event.project_id))
    if current is None and not lifetimes and not anomalies:
        return None
    return Lifecycle(current, lifetimes, anomalies)


@dataclass(slots=True)
class _Life:
    """A lifetime that is being read: what configured it, and how it ended."""

    no: int
    configured: list[tuple[Step, Projection]]
    ended_by: Step | None = None
    closed_at: datetime | None = None
    uses: list[Step] = field(default_factory=list)  # its events that carry usage

    @property
    def opened_at(self) -> datetime:
        return self.configured[0][0].timestamp

    def closed(self) -> Lifetime:
        """Zero length vanishes first, except at the very end; then equal neighbours coalesce (rule 10)."""
        pieces = list(self._pieces())
        kept = [*(piece for piece in pieces[:-1] if piece.has_length), pieces[-1]]
        open_left = self.no == 1 and self.configured[0][0].effect is Effect.UPDATE
        intervals, uses = tuple(_coalesced(kept)), tuple(self.uses)
        return Lifetime(self.no, self.opened_at, self.closed_at, open_left, intervals, uses)

    def _pieces(self) -> Iterator[Interval]:
        ends: list[Step | None] = [step for step, _ in self.configured[1:]]
        for (step, row), end in zip(self.configured, [*ends, self.ended_by], strict=True):
            to_ts = None if end is None else end.timestamp
            yield Interval(step.timestamp, to_ts, row.project_id, row.last_state, row.size, step, end)


class _Reading:
    """The fold, watched: after each step the lives so far and the events that fit into none."""

    def __init__(self) -> None:
        self.row: Projection | None = None
        self.lives: list[_Life] = []
        self.anomalies: list[Anomaly] = []

    @property
    def open(self) -> bool:
        return self.row is not None and self.row.open

    def take(self, step: Step, *, recreates: bool) -> None:
        was_open = self.open
        self.row = advance(self.row, step)
        if self.row.open and not was_open:
            self._begin(step, self.row, recreates=recreates)
        elif not was_open:
            self._report(step)
        elif self.row.open:
            if step.effect in _CONFIGURES:
                self.lives[-1].configured.append((step, self.row))
        else:
            self.lives[-1].ended_by, self.lives[-1].closed_at = step, step.timestamp
        if was_open or self.row.open:
            self._use(step)

    def _begin(self, step: Step, row: Projection, *, recreates: bool) -> None:
        if recreates:
            self.lives[-1].ended_by = step
        self.lives.append(_Life(len(self.lives) + 1, [(step, row)]))

    def _report(self, step: Step) -> None:
        """Say why an event that came while the resource was closed does not count; a second delete is nothing."""
        if step.effect is Effect.DELETE and not self.lives:
            self.anomalies.append(Anomaly("delete_without_life", step))
        elif step.effect is Effect.DELETE:
            if _carries_usage(step):
                self.anomalies.append(Anomaly("usage_without_interval", step))
        elif step.effect is Effect.USAGE and not self.lives:
            self.anomalies.append(Anomaly("usage_without_life", step))
        else:
            self.anomalies.append(Anomaly("after_delete", step))

    def _use(self, step: Step) -> None:
        """Keep in mind what a life used, until it turns out to have had no length."""
        life = self.lives[-1]
        if _carries_usage(step):
            life.uses.append(step)
        if life.closed_at == life.opened_at:
            self.anomalies += (Anomaly("usage_without_interval", use) for use in life.uses)


def _in_order_of_instants(history: Sequence[Step], reading: _Reading) -> Iterator[tuple[Step, bool]]:
    """Yield steps as the rule for one instant orders them, and whether their instant re-creates an open resource."""
    for _, group in groupby(history, key=lambda step: step.timestamp):
        instant = list(group)
        recreates = reading.open and {Effect.CREATE, Effect.DELETE} <= {step.effect for step in instant}
        if recreates:
            instant.sort(key=lambda step: RANK_OF_RECREATION[step.effect])
        for step in instant:
            yield step, recreates


def _carries_usage(step: Step) -> bool:
    return bool(step.payload.get("usage"))


def _coalesced(pieces: Sequence[Interval]) -> Iterator[Interval]:
    left = pieces[0]
    for _, right in pairwise(pieces):
        if _same_configuration(left, right):
            left = replace(left, to_ts=right.to_ts, ended_by=right.ended_by)
        else:
            yield left
            left = right
    yield left


def _same_configuration(left: Interval, right: Interval) -> bool:
    return (left.project_id, left.state) == (right.project_id, right.state) and _same_size(left.size, right.size)


def _same_size(left: dict[str, Any], right: dict[str, Any]) -> bool:
    """Compare by value: 4 equals 4.0, and neither is true. An event that told no size left the same one."""
    return left is right or (left == right and canonical_json(left) == canonical_json(right))


def _seen_life(life: Lifetime, sees: Callable[[str], bool]) -> Lifetime | None:
    seen = [_seen_interval(interval, sees) for interval in life.configurations if sees(interval.project_id)]
    if not seen:
        return None
    first, last = seen[0], seen[-1]
    from_the_beginning = life.open_left and first.from_ts == life.opened_at
    uses = tuple(use for use in life.uses if sees(use.project_id))
    return Lifetime(life.no, first.from_ts, last.to_ts, from_the_beginning, tuple(seen), uses)


def _seen_interval(interval: Interval, sees: Callable[[str], bool]) -> Interval:
    if interval.ended_by is None or sees(interval.ended_by.project_id):
        return interval
    return replace(interval, ended_by=None)
