"""SQL that reads events and current_resources for who asks: filters, keyset pages. Writing them is not done here.

A statement holds the filters that are asked for and no others, and is planned for their values each time: one plan for
all would read the whole table for some of them.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, NamedTuple

from tally.domain.event import Event, Source
from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.reporting.events import Resource

BYTES_OF_PAYLOADS = 16 * 1024 * 1024  # of a page; an event alone may have a quarter of a megabyte

EventKey = tuple[datetime, str, str]  # (timestamp, cloud, event_id): the order of lists of events
ResourceStatus = Literal["active", "deleted", "all"]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """What a list of events is narrowed down to; None is no filter. ``since`` is inclusive, ``until`` exclusive."""

    cloud: str | None = None
    project_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    event_type: str | None = None
    since: datetime | None = None
    until: datetime | None = None


@dataclass(frozen=True, slots=True)
class ResourceFilter:
    """What the inventory is narrowed down to; None is no filter."""

    cloud: str | None = None
    project_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None
    status: ResourceStatus = "all"
    state: str | None = None


class EventRow(NamedTuple):
    """A stored event; ``payload`` is its JSON text, or None where the page holds enough already."""

    event_id: str
    timestamp: datetime
    event_type: str
    platform: str
    cloud: str
    resource_type: str
    resource_id: str
    project_id: str
    source: Source
    payload: str | None

    @property
    def key(self) -> EventKey:
        """Its place in a list."""
        return (self.timestamp, self.cloud, self.event_id)


class ResourceRow(NamedTuple):
    """The current state of a resource; ``size`` is its JSON text. Its last event is None if it may not be seen."""

    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    project_id: str
    state: str
    size: str
    created_at: datetime | None
    deleted_at: datetime | None
    last_event_id: str | None
    last_event_type: str | None
    last_event_at: datetime

    @property
    def key(self) -> Resource:
        """Its place in a list."""
        return (self.cloud, self.resource_type, self.resource_id)


@dataclass(frozen=True, slots=True)
class _List:
    """What a page is cut from: a table, the columns that are shown, and the unique key that gives the order."""

    table: str
    columns: str
    key: tuple[str, ...]


_EVENTS = _List(
    "reporting.events as t",
    ", ".join(f"t.{name}" for name in EventRow._fields),
    ("timestamp", "cloud", "event_id"),
)
_RESOURCES = _List(
    "reporting.current_resources as t",
    ", ".join(f"t.{name}::text" if name == "size" else f"t.{name}" for name in ResourceRow._fields),
    ("cloud", "resource_type", "resource_id"),
)
_OF_LAST_EVENT = ("last_event_id", "last_event_type")
_STATUS: dict[ResourceStatus, list[str]] = {
    "active": ["t.created_at is not null", "t.deleted_at is null"],
    "deleted": ["t.deleted_at is not null"],
    "all": [],
}


def events(
    connection: Connection,
    wanted: EventFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: EventKey | None,
    limit: int,
) -> list[EventRow]:
    """Return the next events after a key, in the order of (timestamp, cloud, event_id).

    The first has its payload; so have those that follow until their payloads are BYTES_OF_PAYLOADS long.
    """
    where = _equal(wanted, "cloud", "project_id", "resource_type", "resource_id", "event_type")
    if wanted.since is not None:
        where.append("t.timestamp >= %(since)s")
    if wanted.until is not None:
        where.append("t.timestamp < %(until)s")
    if after is not None:
        where.append("t.timestamp >= %(after_0)s")  # implied by the key, but only so are months left out
    query, values = _page(_EVENTS, wanted, where, visible, after, limit)
    key = ", ".join(_EVENTS.key)
    before = f"sum(octet_length(payload::text)) over (order by {key} rows between unbounded preceding and 1 preceding)"
    query = f"""
        select {", ".join(EventRow._fields[:-1])},
            case when coalesce({before}, 0) < {BYTES_OF_PAYLOADS} then payload::text end
        from ({query}) as page
        order by {key}"""
    return [EventRow(*row) for row in connection.execute(query.encode(), values, prepare=False)]


def resources(
    connection: Connection,
    wanted: ResourceFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: Resource | None,
    limit: int,
) -> list[ResourceRow]:
    """Return the next rows of current_resources after a key, in the order of (cloud, resource_type, resource_id)."""
    where = _equal(wanted, "cloud", "project_id", "resource_type", "resource_id", "state") + _STATUS[wanted.status]
    query, values = _page(_RESOURCES, wanted, where, visible, after, limit)
    if visible is not None:
        query = _without_events_of_others(query)
        values |= {"own_clouds": [cloud for cloud, _ in visible], "own_projects": [project for _, project in visible]}
    return [ResourceRow(*row) for row in connection.execute(query.encode(), values, prepare=False)]


def _without_events_of_others(query: str) -> str:
    """Name the last event of a resource only where it is of a visible project: any may send usage or a delete."""
    columns = ", ".join(
        f"case when last.seen then page.{name} end" if name in _OF_LAST_EVENT else f"page.{name}"
        for name in ResourceRow._fields
    )
    return f"""
        select {columns}
        from ({query}) as page
        cross join lateral (
            select exists (
                select from reporting.events as e
                where e.cloud = page.cloud and e.resource_type = page.resource_type
                    and e.resource_id = page.resource_id and e.timestamp = page.last_event_at
                    and e.event_id = page.last_event_id and (e.cloud, e.project_id) in (
                        select * from unnest(%(own_clouds)s::text[], %(own_projects)s::text[])
                    )
            ) as seen
        ) as last
        order by {", ".join(f"page.{name}" for name in _RESOURCES.key)}"""


def is_seen(connection: Connection, resource: Resource, projects: Collection[str]) -> bool:
    """Say whether any event of a resource is of one of these projects of its cloud."""
    row = connection.execute(
        """
        select exists (
            select from reporting.events
            where cloud = %s and resource_type = %s and resource_id = %s and project_id = any(%s)
        )
        """,
        [*resource, list(projects)],
        prepare=False,
    ).fetchone()
    return row == (True,)


def history(connection: Connection, resource: Resource) -> list[Event]:
    """Return all events of one resource, in no order, with only size, state and usage of their payloads."""
    rows = connection.execute(
        """
        select
            event_id, timestamp, event_type, platform, project_id, source,
            payload ->> 'size', payload ->> 'state', payload ->> 'usage'
        from reporting.events
        where cloud = %s and resource_type = %s and resource_id = %s
        """,
        resource,
        prepare=False,
    )
    return [_event(resource, row) for row in rows]


def _event(resource: Resource, row: Sequence[Any]) -> Event:
    event_id, timestamp, event_type, platform, project_id, source, size, state, usage = row
    payload: dict[str, Any] = {"state": state}
    if size is not None:
        payload["size"] = read_json(size)
    if usage is not None:
        payload["usage"] = read_json(usage)
    return Event(event_id, timestamp, event_type, platform, *resource, project_id, source, payload)


def _page(
    listed: _List,
    wanted: EventFilter | ResourceFilter,
    where: Sequence[str],
    visible: Collection[ProjectKey] | None,
    after: Sequence[object] | None,
    limit: int,
) -> tuple[str, dict[str, Any]]:
    """Write the statement of a page, and its values."""
    conditions = [*where, _beyond(listed)] if after is not None else list(where)
    values = {name: getattr(wanted, name) for name in type(wanted).__slots__} | {"limit": limit}
    values |= {f"after_{place}": value for place, value in enumerate(after or ())}
    if visible is None:
        return _of_all(listed, conditions), values
    return _of_each(listed, conditions), values | _seen(visible, wanted)


def _of_all(listed: _List, where: Sequence[str]) -> str:
    narrowed = f"where {' and '.join(where)}" if where else ""
    return f"select {listed.columns} from {listed.table} {narrowed} order by {_order(listed)} limit %(limit)s"


def _of_each(listed: _List, where: Sequence[str]) -> str:
    """Merge a page of each visible project, so that no page reads what belongs to others."""
    own = ["t.cloud = seen.cloud", "t.project_id = seen.project_id", *where]
    return f"""
        select page.*
        from unnest(%(seen_clouds)s::text[], %(seen_projects)s::text[]) as seen (cloud, project_id)
        cross join lateral ({_of_all(listed, own)}) as page
        order by {", ".join(listed.key)}
        limit %(limit)s"""


def _beyond(listed: _List) -> str:
    places = ", ".join(f"%(after_{place})s" for place in range(len(listed.key)))
    return f"({_order(listed)}) > ({places})"


def _order(listed: _List) -> str:
    return ", ".join(f"t.{name}" for name in listed.key)


def _equal(wanted: EventFilter | ResourceFilter, *names: str) -> list[str]:
    return [f"t.{name} = %({name})s" for name in names if getattr(wanted, name) is not None]


def _seen(visible: Collection[ProjectKey], wanted: EventFilter | ResourceFilter) -> dict[str, list[str]]:
    """Return the visible projects that the filters leave, as columns."""
    left = [
        (cloud, project_id)
        for cloud, project_id in visible
        if wanted.cloud in (None, cloud) and wanted.project_id in (None, project_id)
    ]
    return {"seen_clouds": [cloud for cloud, _ in left], "seen_projects": [project_id for _, project_id in left]}
