"""The projection current_resources: folding new events into it, and replaying it from the events (rule 11)."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from tally.domain.event import Event
from tally.domain.resource_type import Effect, Transition
from tally.domain.timeline import Projection, Step, advance, in_order, replay, step_of
from tally.services.known_types import Registry, current_registry
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.reporting import events as events_store
from tally.store.reporting import projection as store
from tally.store.reporting import registry as registry_store
from tally.store.reporting.events import Resource

RESOURCES_AT_ONCE = 500

_IGNORED = Transition(Effect.IGNORE)


def fold(connection: Connection, registry: Registry, new: Iterable[tuple[Event, Transition]]) -> None:
    """Bring the rows of the resources of stored events up to date, in the transaction that stored them.

    Steps that come after all others are applied on top of the row; any other order replays the resource's history.
    """
    news, platforms = _by_resource(new)
    if not news:
        return
    rows = store.lock_to_advance(connection, news)
    ahead = {resource for resource, row in rows.items() if in_order(row.projection, news[resource])}
    store.advance(connection, [_advanced(rows[resource], news[resource]) for resource in ahead])
    # Without a row, the news are the whole history.
    folded = {resource: replay(steps) for resource, steps in news.items() if resource not in rows}
    histories = _histories(connection, rows.keys() - ahead)
    folded |= {resource: _replayed(registry, history) for resource, history in histories.items()}
    store.write(
        connection,
        [
            store.ProjectionRow(resource, platforms[resource[0]], projection, write_json(projection.size))
            for resource, projection in sorted(folded.items())
            if projection is not None
        ],
    )


def _by_resource(new: Iterable[tuple[Event, Transition]]) -> tuple[dict[Resource, list[Step]], dict[str, str]]:
    """Return the steps that do something, in order and by resource, and the platforms of their clouds."""
    news: dict[Resource, list[Step]] = {}
    platforms: dict[str, str] = {}
    for event, transition in new:
        if transition.effect is not Effect.IGNORE:
            news.setdefault(event.resource, []).append(step_of(event, transition))
            platforms[event.cloud] = event.platform
    for steps in news.values():
        if len(steps) > 1:
            steps.sort(key=lambda step: step.order)
    return news, platforms


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
    resource_type = registry.types.get((event.platform, event.resource_type))
    return _IGNORED if resource_type is None else resource_type.lifecycle.get(event.event_type, _IGNORED)


def _rebuild(connection: Connection, registry: Registry, resources: Sequence[Resource]) -> int:
    store.lock(connection, resources)
    rows = []
    for resource, history in _histories(connection, resources).items():
        projection = _replayed(registry, history)
        if projection is not None:
            size = write_json(projection.size)
            rows.append(store.ProjectionRow(resource, history[0].platform, projection, size))
    kept = {row.resource for row in rows}
    store.remove(connection, [resource for resource in resources if resource not in kept])
    store.write(connection, rows)
    return len(rows)


def _histories(connection: Connection, resources: Collection[Resource]) -> Mapping[Resource, list[Event]]:
    return events_store.histories(connection, resources) if resources else {}


def _advanced(row: store.StoredRow, steps: Iterable[Step]) -> store.AdvancedRow:
    projection = row.projection
    for step in steps:
        projection = advance(projection, step)
    size = None if projection.size is store.SIZE_AS_STORED else write_json(projection.size)
    return store.AdvancedRow(row.place, projection, size)


def _replayed(registry: Registry, history: Iterable[Event]) -> Projection | None:
    return replay(step_of(event, transition_of(registry, event)) for event in history)
