"""Questions about the history: events, and the life of one resource. Taking events is the business of ingest.py."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from datetime import datetime

from tally.domain.errors import InvalidInput, NotFound
from tally.domain.event import Event
from tally.domain.lifecycle import Lifecycle, lifecycle, seen_by
from tally.domain.principal import ProjectKey
from tally.domain.timeline import step_of
from tally.services.projection import transition_of
from tally.services.registry import current_registry
from tally.store.database import Connection
from tally.store.reporting import queries as store
from tally.store.reporting.events import Resource
from tally.store.reporting.queries import EventFilter, EventKey, EventRow


@dataclass(frozen=True, slots=True)
class ResourceLifecycle:
    """The life of one resource, as far as the one who asks may see it; ``names_last``: its last event included."""

    resource: Resource
    platform: str
    lifecycle: Lifecycle
    names_last: bool = True


def list_events(
    reporting: Connection,
    wanted: EventFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: EventKey | None,
    limit: int,
) -> list[EventRow]:
    """Return the next events after a key, in the order of (timestamp, cloud, event_id).

    Raises:
        InvalidInput: if a resource is named by half, which no index could find.
    """
    if wanted.resource_id is not None and None in (wanted.cloud, wanted.resource_type):
        raise InvalidInput("resource_id needs cloud and resource_type beside it: an id is unique only within both")
    if wanted.since is not None and wanted.until is not None and wanted.since > wanted.until:
        raise InvalidInput("from is later than to")
    return store.events(reporting, wanted, visible=visible, after=after, limit=limit)


def list_events_of_resource(
    reporting: Connection,
    resource: Resource,
    *,
    visible: Collection[ProjectKey] | None,
    after: tuple[datetime, str] | None,
    limit: int,
) -> list[EventRow]:
    """Return the next events of a resource after (timestamp, event_id), in that order.

    Raises:
        NotFound: if it has no events, or none that may be seen.
    """
    cloud, resource_type, resource_id = resource
    wanted = EventFilter(cloud=cloud, resource_type=resource_type, resource_id=resource_id)
    key = (after[0], cloud, after[1]) if after else None
    found = store.events(reporting, wanted, visible=visible, after=key, limit=limit)
    if not found and after is None:
        raise _unknown(resource)
    return found


def get_lifecycle(
    reporting: Connection, resource: Resource, *, visible: Collection[ProjectKey] | None
) -> ResourceLifecycle:
    """Return the lives of a resource, read from its events by the registry as it is now.

    Raises:
        NotFound: if it has no events, or none that may be seen.
    """
    if visible is not None:
        # Before the history is read: by the time that takes, a foreign resource would be told from one that never was.
        own = [project_id for cloud, project_id in visible if cloud == resource[0]]
        if not own or not store.is_seen(reporting, resource, own):
            raise _unknown(resource)
    registry = current_registry(reporting)
    events = store.history(reporting, resource)
    whole = lifecycle(step_of(event, transition_of(registry, event)) for event in events)
    if whole is not None and visible is not None:
        whole = seen_by(whole, lambda project_id: (resource[0], project_id) in visible)
    if whole is None:
        raise _unknown(resource)
    return ResourceLifecycle(resource, events[0].platform, whole, _sees_last(whole, events, visible))


def _sees_last(whole: Lifecycle, events: Iterable[Event], visible: Collection[ProjectKey] | None) -> bool:
    """Any project may send usage or a delete; only create and update make a resource its own."""
    if visible is None or whole.current is None:
        return True
    last = whole.current.last_event_id
    return any(event.event_id == last and (event.cloud, event.project_id) in visible for event in events)


def _unknown(resource: Resource) -> NotFound:
    cloud, resource_type, resource_id = resource
    return NotFound(f"cloud {cloud} has no {resource_type} {resource_id}")
