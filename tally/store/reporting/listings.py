"""SQL of a listing while it is compared: temporary tables of the session, filled page by page, joined as a whole.

So a sync needs the memory of a page, however many resources a cloud has. What is concluded from a difference is the
domain's business.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, NamedTuple

from tally.domain.drift import state_of
from tally.domain.inventory import Listed, Unknown
from tally.store.database import Connection
from tally.store.json_text import read_json, write_json


class Comparison(NamedTuple):
    """How a listing differs from the inventory, in numbers of resources."""

    listed: int  # exist, as the platform says
    unknown: int
    open_before: int  # exist, as the inventory says
    closing: int  # would be closed


class Difference(NamedTuple):
    """A resource in which the two differ; ``listed`` is None if it is absent from the listing."""

    resource_id: str
    listed: Listed | None


def begin(connection: Connection) -> None:
    """Make room for a listing, in the place of what a former one may have left."""
    end(connection)
    connection.execute(
        """
        create temporary table listed (
            resource_type text collate "C",
            resource_id text collate "C",
            told boolean not null,
            project_id text collate "C",
            state text collate "C",
            size jsonb,
            created_at timestamptz,
            updated_at timestamptz,
            deleted_at timestamptz,
            primary key (resource_type, resource_id)
        )
        """
    )
    connection.execute(
        """
        create temporary table differences (
            resource_type text collate "C",
            resource_id text collate "C",
            closes boolean not null,
            primary key (resource_type, resource_id)
        )
        """
    )


def end(connection: Connection) -> None:
    """Forget the listing."""
    connection.execute("drop table if exists pg_temp.listed, pg_temp.differences")


def add(connection: Connection, resource_type: str, answers: Sequence[Listed | Unknown]) -> None:
    """Keep a page; of a resource that is listed twice the later answer holds."""
    last = {answer.resource_id: answer for answer in answers}
    columns = zip(*(_columns(answer) for answer in last.values()), strict=True)
    connection.execute(
        """
        insert into pg_temp.listed
        select %s, resource_id, told, project_id, state, size::jsonb, created_at, updated_at, deleted_at
        from unnest(
            %b::text[], %b::boolean[], %b::text[], %b::text[], %b::text[],
            %b::timestamptz[], %b::timestamptz[], %b::timestamptz[]
        ) as given (resource_id, told, project_id, state, size, created_at, updated_at, deleted_at)
        on conflict (resource_type, resource_id) do update set
            told = excluded.told,
            project_id = excluded.project_id,
            state = excluded.state,
            size = excluded.size,
            created_at = excluded.created_at,
            updated_at = excluded.updated_at,
            deleted_at = excluded.deleted_at
        """,
        [resource_type, *(list(column) for column in columns)],
        prepare=False,
    )


def settle(connection: Connection) -> None:
    """Let the planner know what has been listed: nobody else does it for a temporary table."""
    connection.execute("analyze pg_temp.listed")


def compare(
    connection: Connection,
    cloud: str,
    resource_type: str,
    *,
    started_at: datetime,
    since: datetime | None,
    complete: bool,
) -> Comparison:
    """Note the resources of a type in which a listing differs from the inventory, and count.

    Rather too many than too few: each is judged on its own, with its row as it is by then. ``since`` is the start of
    the previous listing: what was deleted before it and never known is no difference.
    """
    values = {
        "cloud": cloud, "type": resource_type, "started_at": started_at, "since": since, "complete": complete
    }  # fmt: skip
    connection.execute(_NOTE_DIFFERENCES, values, prepare=False)
    row = connection.execute(_COUNT, values, prepare=False).fetchone()
    assert row is not None
    return Comparison(*row)


def differences_after(connection: Connection, resource_type: str, last: str, limit: int) -> list[Difference]:
    """Return the next differences of a type, in the order of resource_id."""
    rows = connection.execute(
        """
        select d.resource_id, l.told, l.project_id, l.state, l.size::text, l.created_at, l.updated_at, l.deleted_at
        from pg_temp.differences as d
        left join pg_temp.listed as l on l.resource_type = d.resource_type and l.resource_id = d.resource_id
        where d.resource_type = %s and d.resource_id > %s
        order by d.resource_id
        limit %s
        """,
        [resource_type, last, limit],
        prepare=False,
    )
    return [Difference(row[0], _listed(row)) for row in rows]


_NOTE_DIFFERENCES = """
    with l as (
        select * from pg_temp.listed where resource_type = %(type)s
    ),
    c as (
        select *, created_at is not null and deleted_at is null as open
        from reporting.current_resources
        where cloud = %(cloud)s and resource_type = %(type)s
    )
    insert into pg_temp.differences (resource_type, resource_id, closes)
    select
        %(type)s,
        coalesce(l.resource_id, c.resource_id),
        coalesce(c.open and c.last_event_at < %(started_at)s and (l.resource_id is null or l.deleted_at is not null),
            false)
    from l
    full join c on c.resource_id = l.resource_id
    where case
        when l.resource_id is null then c.open and %(complete)s
        when not l.told then false
        when l.deleted_at is not null
            then c.open or c.created_at is null and (c.resource_id is not null or l.deleted_at > %(since)s)
        when c.resource_id is null or not c.open then true
        else l.project_id <> c.project_id or l.state <> c.last_state or l.size <> c.size
    end
"""

_COUNT = """
    select
        (select count(*) filter (where told and deleted_at is null)
            from pg_temp.listed where resource_type = %(type)s),
        (select count(*) filter (where not told)
            from pg_temp.listed where resource_type = %(type)s),
        (select count(*)
            from reporting.current_resources
            where cloud = %(cloud)s and resource_type = %(type)s and created_at is not null and deleted_at is null),
        (select count(*) filter (where closes)
            from pg_temp.differences where resource_type = %(type)s)
"""


def _columns(answer: Listed | Unknown) -> tuple[Any, ...]:
    if isinstance(answer, Unknown):
        return (answer.resource_id, False, None, None, None, None, None, None)
    return (
        answer.resource_id,
        True,
        answer.project_id or None,
        state_of(answer),
        None if answer.size is None else write_json(answer.size),
        answer.created_at,
        answer.updated_at,
        answer.deleted_at,
    )


def _listed(row: Sequence[Any]) -> Listed | None:
    resource_id, told, project_id, state, size, created_at, updated_at, deleted_at = row
    if told is None:
        return None
    return Listed(
        resource_id, project_id, state, None if size is None else read_json(size), created_at, updated_at, deleted_at
    )
