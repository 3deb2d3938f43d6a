"""The projection current_resources: folding new events into it, and replaying it from the events (rule 11)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tally.domain.event import Event
from tally.domain.resource_type import Effect, Transition
from tally.domain.timeline import Projection, Step, advance, in_order, replay, step_of
from tally.services.known_types import Registry, current_registry
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.reporting import events as events_store
from tally.store.reporting import projection as store
from tally.store.reporting import registry as registry_store
from tally.store.reporting.events import NewEvent, Resource

RESOURCES_AT_ONCE = 500

_IGNORED = Transition(Effect.IGNORE)


@dataclass(frozen=True, slots=True)
class _News:
    """What a batch brings to one resource."""

    platform: str
    steps: list[Step]


def fold(connection: Connection, registry: Registry, new: Iterable[NewEvent]) -> None:
    """Bring the rows of the resources of stored events up to date, in the transaction that stored them.

    Steps that come after all others are applied on top of the row; any other order replays the resource's history.
    """
    payloads: dict[tuple[str, str], str] = {}
    news: dict[Resource, _News] = {}
    for event, _, payload in new:
        step = step_of(event, transition_of(registry, event))
        if step.effect is not Effect.IGNORE:
            payloads[event.cloud, event.event_id] = payload
            news.setdefault(event.resource, _News(event.platform, [])).steps.append(step)
    if not news:
        return
    store.lock(connection, news)
    rows = store.rows(connection, news)
    folded = {resource: _advanced(rows.get(resource), brought.steps) for resource, brought in news.items()}
    late = [resource for resource, projection in folded.items() if projection is None]
    folded |= {resource: _replayed(registry, history) for resource, history in _histories(connection, late).items()}
    store.write(
        connection,
        [
            _row(resource, news[resource].platform, projection, payloads)
            for resource, projection in sorted(folded.items())
            if projection is not None
        ],
    )


def rebuild(
    connection: Connection,
    cloud: str | None = None,
    resource_type: str | None = None,
    progress: Callable[[int], object] = lambda _: None,
) -> int:
    """Replay the projection, of one cloud and one resource type or of all, and return how many rows it has.

    Works in chunks of resources, each a transaction under the locks that ingestion takes, and by the registry as it is
    then: it can run beside ingestion and be broken off at any time. ``progress`` is told the resources of each chunk.
    """
    written = 0
    last: Resource = ("", "", "")
    while chunk := store.resources_after(connection, last, RESOURCES_AT_ONCE, cloud, resource_type):
        with connection.transaction():
            registry_store.hold(connection)
            written += _rebuild(connection, current_registry(connection), chunk)
        last = chunk[-1]
        progress(len(chunk))
    return written


def size(connection: Connection, cloud: str | None = None) -> int:
    """Return how many rows the projection has."""
    return store.count(connection, cloud)


def transition_of(registry: Registry, event: Event) -> Transition:
    """Return what a stored event does; one whose type the registry no longer knows does nothing to the projection."""
    resource_type = registry.get((event.platform, event.resource_type))
    return _IGNORED if resource_type is None else resource_type.lifecycle.get(event.event_type, _IGNORED)


def _rebuild(connection: Connection, registry: Registry, resources: Sequence[Resource]) -> int:
    store.lock(connection, resources)
    rows = []
    for resource, history in _histories(connection, resources).items():
        projection = _replayed(registry, history)
        if projection is not None:
            rows.append(_row(resource, history[0].platform, projection, {}))
    kept = {row.resource for row in rows}
    store.remove(connection, [resource for resource in resources if resource not in kept])
    store.write(connection, rows)
    return len(rows)


def _histories(connection: Connection, resources: Sequence[Resource]) -> Mapping[Resource, list[Event]]:
    return events_store.histories(connection, resources) if resources else {}


def _advanced(row: Projection | None, steps: list[Step]) -> Projection | None:
    """Apply steps on top of a row; None if only the history can tell. Without a row, they are the whole history."""
    if row is None:
        return replay(steps)
    if len(steps) > 1:
        steps = sorted(steps, key=lambda step: step.order)
    if not in_order(row, steps):
        return None
    for step in steps:
        row = advance(row, step)
    return row


def _replayed(registry: Registry, history: Iterable[Event]) -> Projection | None:
    return replay(step_of(event, transition_of(registry, event)) for event in history)


def _row(
    resource: Resource, platform: str, projection: Projection, payloads: Mapping[tuple[str, str], str]
) -> store.ProjectionRow:
    payload = payloads.get((resource[0], projection.last_event_id)) or write_json(projection.last_payload)
    return store.ProjectionRow(resource, platform, projection, write_json(projection.size), payload)
