"""The fold of one resource's history into its current configuration (rules 8, 9 and 11).

This is the rule in plain Python, for the projection: one resource, a few events. The interval timelines of all
resources are computed by dbt (int_resource_intervals), which a check compares with this fold on every run.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import groupby
from typing import Any

from tally.domain.event import Event
from tally.domain.resource_type import RANK, Effect, Transition

UNKNOWN_STATE = "unknown"
DELETED_STATE = "deleted"

# The effects whose events carry a configuration: size, state, project.
_CONFIGURES = frozenset({Effect.CREATE, Effect.UPDATE})

# Within one instant that re-creates an open resource, its end comes before its new beginning (rule 8).
RANK_OF_RECREATION = {Effect.USAGE: 0, Effect.DELETE: 1, Effect.CREATE: 2, Effect.UPDATE: 3}


# Steps and projections are values, which nobody changes. They are not frozen because that makes each five times as
# dear, and every event makes one of either.


@dataclass(slots=True)
class Step:
    """An event as the fold sees it: its effect resolved, its size and state read (None means unchanged)."""

    timestamp: datetime
    event_id: str
    event_type: str
    effect: Effect
    synthetic: bool
    project_id: str
    size: dict[str, Any] | None
    state: str | None
    payload: Mapping[str, Any]

    @property
    def order(self) -> tuple[datetime, int, bytes]:
        """The total order of rule 8, before the rule for one instant."""
        return (self.timestamp, RANK[self.effect], self.event_id.encode())


@dataclass(slots=True)
class Projection:
    """The current state of a resource: its last configuration, its last lifetime, its last event."""

    project_id: str
    last_event_id: str
    last_event_type: str
    last_event_at: datetime
    last_state: str = UNKNOWN_STATE
    size: dict[str, Any] = field(default_factory=dict)
    created_at: datetime | None = None
    deleted_at: datetime | None = None  # set without created_at: a delete without a life
    has_synthetic: bool = False

    @property
    def open(self) -> bool:
        """Whether a lifetime is open."""
        return self.created_at is not None and self.deleted_at is None

    @property
    def state(self) -> str:
        """The state for queries: that of the last configuration, or 'deleted'."""
        return DELETED_STATE if self.deleted_at is not None else self.last_state


def step_of(event: Event, transition: Transition) -> Step:
    """Read an event as the fold sees it (rule 5).

    Only create and update carry a configuration. What they do not say is unchanged (a JSON null says nothing). A state
    that they say wins over the one that the lifecycle implies, and is read in lower case, as the price list has it.
    """
    size: dict[str, Any] | None = None
    state: str | None = None
    if transition.effect in _CONFIGURES:
        size = event.payload.get("size")
        told = event.payload.get("state")
        # Of bytes, as the database does it with collation "C": no language has a say in what a state is.
        state = transition.state if told is None else told.encode().lower().decode()
    return Step(
        event.timestamp,
        event.event_id,
        event.event_type,
        transition.effect,
        event.synthetic,
        event.project_id,
        size,
        state,
        event.payload,
    )


def in_order(row: Projection, steps: Sequence[Step]) -> bool:
    """Whether new steps can be applied on top of a row: each is later than all before it and voids nothing (rule 8)."""
    last = row.last_event_at
    for step in steps:
        if step.timestamp <= last or step.synthetic is not steps[0].synthetic:
            return False
        if row.has_synthetic and not step.synthetic:
            return False
        last = step.timestamp
    return True


def replay(steps: Iterable[Step]) -> Projection | None:
    """Fold a whole history, in whatever order it is given; None if there is nothing to fold."""
    history = sorted((step for step in steps if step.effect is not Effect.IGNORE), key=lambda step: step.order)
    row: Projection | None = None
    for _, group in groupby(without_void(history), key=lambda step: step.timestamp):
        instant = list(group)
        if row is not None and row.open and {Effect.CREATE, Effect.DELETE} <= {step.effect for step in instant}:
            instant.sort(key=lambda step: RANK_OF_RECREATION[step.effect])
        for step in instant:
            row = advance(row, step)
    if row is None:
        return None
    return replace(row, has_synthetic=any(step.synthetic for step in history))


def advance(row: Projection | None, step: Step) -> Projection:
    """Apply one step that comes after all others."""
    if row is None:
        row = Projection(step.project_id, "", "", step.timestamp)
    project_id, state, size = row.project_id, row.last_state, row.size
    created_at, deleted_at = row.created_at, row.deleted_at
    unborn = created_at is None and deleted_at is None
    if step.effect is Effect.DELETE:
        if row.open or unborn:
            deleted_at = step.timestamp
    elif step.effect is not Effect.USAGE:
        if row.open:
            project_id = step.project_id
            size = size if step.size is None else step.size
            state = state if step.state is None else step.state
        elif step.effect is Effect.CREATE or unborn:
            project_id, size, state = step.project_id, step.size or {}, step.state or UNKNOWN_STATE
            created_at, deleted_at = step.timestamp, None
    return Projection(
        project_id,
        step.event_id,
        step.event_type,
        step.timestamp,
        state,
        size,
        created_at,
        deleted_at,
        row.has_synthetic or step.synthetic,
    )


def without_void(history: Sequence[Step]) -> list[Step]:
    """Drop the synthetic events that the collector's own events void (rule 9); the history is in total order.

    Seen from the end: a synthetic create is void if a collector's create follows before any delete, a synthetic
    delete if a collector's update, usage or delete follows before any create. A void event counts as absent, also
    when others are judged.
    """
    kept: list[Step] = []
    create_follows = False  # a collector's create, before any delete
    sign_of_life_follows = False  # a collector's update, usage or delete, before any create
    for step in reversed(history):
        if step.effect is Effect.CREATE:
            if step.synthetic and create_follows:
                continue
            create_follows, sign_of_life_follows = not step.synthetic, False
        elif step.effect is Effect.DELETE:
            if step.synthetic and sign_of_life_follows:
                continue
            create_follows, sign_of_life_follows = False, not step.synthetic
        elif not step.synthetic:
            sign_of_life_follows = True
        kept.append(step)
    kept.reverse()
    return kept
