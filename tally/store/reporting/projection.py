"""SQL of current_resources: locks, rows in, rows out. How a history is folded into a row is the domain's business."""

from collections.abc import Collection, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

import psycopg
from psycopg.rows import TupleRow

from tally.domain.timeline import Projection
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.reporting.events import Resource, transposed

# Stands for the size that a row has, where it is not read: no fold needs it, and most leave it as it is.
SIZE_AS_STORED: dict[str, Any] = {}


class StoredRow(NamedTuple):
    """A row as it is stored: its projection without the size, and where it stands for as long as its lock is held."""

    place: str
    projection: Projection


class AdvancedRow(NamedTuple):
    """A stored row to be rewritten; size is JSON text, or None to leave it."""

    place: str
    projection: Projection
    size: str | None


class ProjectionRow(NamedTuple):
    """A row to be written, whether it is there or not; size is JSON text."""

    resource: Resource
    platform: str
    projection: Projection
    size: str


def lock(connection: Connection, resources: Collection[Resource]) -> None:
    """Hold the right to fold these resources until the transaction ends (rule 22).

    Everybody takes the locks in one order, so that nobody waits in a circle. Two resources with one hash only wait for
    each other needlessly.
    """
    connection.execute(
        "select count(pg_advisory_xact_lock(key)) from unnest(%b::bigint[]) as given (key)",
        [sorted({lock_key(resource) for resource in resources})],
    )


def lock_key(resource: Resource) -> int:
    """Return the key of a resource's advisory lock: a hash of 64 bits, signed."""
    return int.from_bytes(blake2b("\0".join(resource).encode(), digest_size=8).digest(), signed=True)


def rows(connection: Connection, resources: Collection[Resource]) -> dict[Resource, Projection]:
    """Return the rows of these resources that exist."""
    found = connection.execute(
        """
        select
            c.cloud, c.resource_type, c.resource_id, c.size::text, c.project_id, c.last_event_id, c.last_event_type,
            c.last_event_at, c.last_state, c.created_at, c.deleted_at, c.has_synthetic
        from unnest(%b::text[], %b::text[], %b::text[]) as given (cloud, resource_type, resource_id)
        inner join reporting.current_resources as c
            on c.cloud = given.cloud and c.resource_type = given.resource_type and c.resource_id = given.resource_id
        """,
        transposed(resources, 3),
        prepare=False,
    )
    return {(row[0], row[1], row[2]): _projection(row[4:], read_json(row[3])) for row in found}


def lock_to_advance(connection: Connection, resources: Collection[Resource]) -> dict[Resource, StoredRow]:
    """Hold the right to fold these resources, as lock() does, and return the rows of those that have one, without size.

    Both go to the server at once; the rows are read by a snapshot of their own, once the locks are held.
    """
    with connection.pipeline():
        lock(connection, resources)
        found = _rows_to_advance(connection, resources)
    return {(row[0], row[1], row[2]): StoredRow(row[3], _projection(row[4:], SIZE_AS_STORED)) for row in found}


def _rows_to_advance(connection: Connection, resources: Collection[Resource]) -> psycopg.Cursor[TupleRow]:
    return connection.execute(
        """
        select
            c.cloud, c.resource_type, c.resource_id, c.ctid::text, c.project_id, c.last_event_id, c.last_event_type,
            c.last_event_at, c.last_state, c.created_at, c.deleted_at, c.has_synthetic
        from unnest(%b::text[], %b::text[], %b::text[]) as given (cloud, resource_type, resource_id)
        inner join reporting.current_resources as c
            on c.cloud = given.cloud and c.resource_type = given.resource_type and c.resource_id = given.resource_id
        """,
        transposed(resources, 3),
        prepare=False,
        binary=True,
    )


def advance(connection: Connection, rows: Sequence[AdvancedRow]) -> None:
    """Rewrite rows where lock_to_advance() has found them: only who holds the lock of a resource moves its row."""
    if not rows:
        return
    columns = zip(*map(_advanced_columns, rows), strict=True)
    cursor = connection.execute(
        """
        update reporting.current_resources as c
        set
            project_id = given.project_id,
            state = given.state,
            last_state = given.last_state,
            size = coalesce(given.size::jsonb, c.size),
            created_at = given.created_at,
            deleted_at = given.deleted_at,
            last_event_id = given.last_event_id,
            last_event_type = given.last_event_type,
            last_event_at = given.last_event_at,
            has_synthetic = given.has_synthetic
        from unnest(
            %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[], %b::timestamptz[],
            %b::text[], %b::text[], %b::timestamptz[], %b::boolean[]
        ) as given (
            place, project_id, state, last_state, size, created_at, deleted_at,
            last_event_id, last_event_type, last_event_at, has_synthetic
        )
        where c.ctid = given.place::tid
        """,
        [list(column) for column in columns],
        prepare=False,
    )
    assert cursor.rowcount == len(rows), "a row of current_resources has moved although its resource is locked"


def write(connection: Connection, new: Sequence[ProjectionRow]) -> None:
    """Insert rows, or put them in the place of those that exist."""
    if not new:
        return
    columns = zip(*map(_columns, new), strict=True)
    connection.execute(
        """
        insert into reporting.current_resources (
            cloud, resource_type, resource_id, platform, project_id, state, last_state, size, created_at, deleted_at,
            last_event_id, last_event_type, last_event_at, has_synthetic
        )
        select
            cloud, resource_type, resource_id, platform, project_id, state, last_state, size::jsonb, created_at,
            deleted_at, last_event_id, last_event_type, last_event_at, has_synthetic
        from unnest(
            %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::text[],
            %b::timestamptz[], %b::timestamptz[], %b::text[], %b::text[], %b::timestamptz[], %b::boolean[]
        ) as given (
            cloud, resource_type, resource_id, platform, project_id, state, last_state, size,
            created_at, deleted_at, last_event_id, last_event_type, last_event_at, has_synthetic
        )
        on conflict (cloud, resource_type, resource_id) do update set
            platform = excluded.platform,
            project_id = excluded.project_id,
            state = excluded.state,
            last_state = excluded.last_state,
            size = excluded.size,
            created_at = excluded.created_at,
            deleted_at = excluded.deleted_at,
            last_event_id = excluded.last_event_id,
            last_event_type = excluded.last_event_type,
            last_event_at = excluded.last_event_at,
            has_synthetic = excluded.has_synthetic
        """,
        [list(column) for column in columns],
    )


def remove(connection: Connection, resources: Collection[Resource]) -> None:
    """Delete rows that no history stands behind."""
    connection.execute(
        """
        delete from reporting.current_resources as c
        using unnest(%b::text[], %b::text[], %b::text[]) as given (cloud, resource_type, resource_id)
        where c.cloud = given.cloud and c.resource_type = given.resource_type and c.resource_id = given.resource_id
        """,
        transposed(resources, 3),
    )


def count(connection: Connection, cloud: str | None) -> int:
    """Return how many rows there are, of one cloud or of all."""
    row = connection.execute(
        "select count(*) from reporting.current_resources where %(cloud)s::text is null or cloud = %(cloud)s",
        {"cloud": cloud},
        prepare=False,
    ).fetchone()
    assert row is not None
    return int(row[0])


def resources_after(
    connection: Connection, last: Resource, limit: int, cloud: str | None = None, resource_type: str | None = None
) -> list[Resource]:
    """Return the next resources that have events or a row, of one cloud and one type or of all, in key order."""
    found = connection.execute(
        """
        select cloud, resource_type, resource_id
        from (
            (
                select distinct cloud, resource_type, resource_id
                from reporting.events
                where (cloud, resource_type, resource_id) > (%(last_cloud)s, %(last_type)s, %(last_id)s)
                    and (%(cloud)s::text is null or cloud = %(cloud)s::text)
                    and (%(type)s::text is null or resource_type = %(type)s::text)
                order by cloud, resource_type, resource_id
                limit %(limit)s
            )
            union
            (
                select cloud, resource_type, resource_id
                from reporting.current_resources
                where (cloud, resource_type, resource_id) > (%(last_cloud)s, %(last_type)s, %(last_id)s)
                    and (%(cloud)s::text is null or cloud = %(cloud)s::text)
                    and (%(type)s::text is null or resource_type = %(type)s::text)
                order by cloud, resource_type, resource_id
                limit %(limit)s
            )
        ) as found
        order by cloud, resource_type, resource_id
        limit %(limit)s
        """,
        {
            "last_cloud": last[0],
            "last_type": last[1],
            "last_id": last[2],
            "cloud": cloud,
            "type": resource_type,
            "limit": limit,
        },
        prepare=False,
    ).fetchall()
    return [(row[0], row[1], row[2]) for row in found]


def _projection(row: Sequence[Any], size: dict[str, Any]) -> Projection:
    project_id, event_id, event_type, at, state, created_at, deleted_at, synthetic = row
    return Projection(project_id, event_id, event_type, at, state, size, created_at, deleted_at, synthetic)


def _columns(row: ProjectionRow) -> tuple[object, ...]:
    projection = row.projection
    return (
        *row.resource,
        row.platform,
        projection.project_id,
        projection.state,
        projection.last_state,
        row.size,
        projection.created_at,
        projection.deleted_at,
        projection.last_event_id,
        projection.last_event_type,
        projection.last_event_at,
        projection.has_synthetic,
    )


def _advanced_columns(row: AdvancedRow) -> tuple[object, ...]:
    projection = row.projection
    return (
        row.place,
        projection.project_id,
        projection.state,
        projection.last_state,
        row.size,
        projection.created_at,
        projection.deleted_at,
        projection.last_event_id,
        projection.last_event_type,
        projection.last_event_at,
        projection.has_synthetic,
    )
