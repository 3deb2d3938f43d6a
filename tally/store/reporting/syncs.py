"""SQL of what reconciliations have found and written, and of the lock that lets one sync of a cloud run at a time."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tally.store.database import Connection

_LOCK = 0x7A11  # the first half of the lock of a cloud; the second half is a hash of its name


class ListingRow(NamedTuple):
    """What a sync found and wrote of one resource type, in numbers of resources."""

    resource_type: str
    started_at: datetime
    status: str  # compared, incomplete (something is missing from the listing) or guarded (too many would be deleted)
    listed: int = 0  # exist, as the platform says
    unknown: int = 0  # the platform could not tell
    open_before: int = 0  # exist, as the inventory said
    created: int = 0
    updated: int = 0
    deleted: int = 0
    skipped: int = 0  # differences that wait for the next sync
    rejected: int = 0  # synthetic events that became dead letters
    withheld: int = 0  # deletions that the guard held back


class LastSync(NamedTuple):
    """When a cloud was last reconciled. All is None for a cloud that never was.

    ``completed_at`` is the end of the last sync that compared every type, whatever came after it.
    """

    cloud: str
    platform: str
    status: str | None  # running, completed, incomplete, guarded, failed, broken_off
    started_at: datetime | None
    finished_at: datetime | None
    errors: Sequence[str]
    completed_at: datetime | None


class LastListing(NamedTuple):
    """The last complete listing of a resource type that was compared with the inventory."""

    cloud: str
    resource_type: str
    started_at: datetime
    listed: int


def lock(connection: Connection, cloud: str) -> bool:
    """Take the right to reconcile a cloud until unlock, or the end of the session; False if another has it."""
    row = connection.execute("select pg_try_advisory_lock(%s, hashtext(%s))", [_LOCK, cloud]).fetchone()
    assert row is not None
    return bool(row[0])


def unlock(connection: Connection, cloud: str) -> None:
    """Give the right back."""
    connection.execute("select pg_advisory_unlock(%s, hashtext(%s))", [_LOCK, cloud])


def begin(connection: Connection, cloud: str, actor: str, started_at: datetime, *, accept_deletions: bool) -> int:
    """Note that a sync runs, and return its id; one that was running until its process died is broken off."""
    with connection.transaction():
        connection.execute(
            "update reporting.syncs set status = 'broken_off', finished_at = greatest(started_at, %s)"
            " where cloud = %s and status = 'running'",
            [started_at, cloud],
        )
        row = connection.execute(
            "insert into reporting.syncs (cloud, actor, started_at, accept_deletions)"
            " values (%s, %s, %s, %s) returning id",
            [cloud, actor, started_at, accept_deletions],
        ).fetchone()
    assert row is not None
    return int(row[0])


def finish(
    connection: Connection,
    sync_id: int,
    cloud: str,
    status: str,
    finished_at: datetime,
    listings: Sequence[ListingRow] = (),
    errors: Sequence[str] = (),
) -> None:
    """Note how a sync ended."""
    with connection.transaction(), connection.cursor() as cursor:
        cursor.execute(
            "update reporting.syncs set status = %s, finished_at = %s, errors = %s::text[] where id = %s",
            [status, finished_at, list(errors), sync_id],
        )
        cursor.executemany(
            """
            insert into reporting.sync_listings (
                cloud, sync_id, resource_type, started_at, status, listed, unknown, open_before,
                created, updated, deleted, skipped, rejected, withheld
            ) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
            """,
            [(cloud, sync_id, *listing) for listing in listings],
        )


def last_syncs(connection: Connection) -> list[LastSync]:
    """Return the last sync of every registered cloud, in the order of their names."""
    rows = connection.execute(
        """
        select
            c.cloud, c.platform, newest.status, newest.started_at, newest.finished_at,
            coalesce(newest.errors, '{}'), completed.finished_at
        from reporting.clouds as c
        left join lateral (
            select s.status, s.started_at, s.finished_at, s.errors
            from reporting.syncs as s
            where s.cloud = c.cloud
            order by s.id desc
            limit 1
        ) as newest on true
        left join lateral (
            select s.finished_at
            from reporting.syncs as s
            where s.cloud = c.cloud and s.status = 'completed'
            order by s.id desc
            limit 1
        ) as completed on true
        order by c.cloud
        """
    ).fetchall()
    return [LastSync(*row) for row in rows]


def last_listings(connection: Connection, cloud: str | None = None) -> list[LastListing]:
    """Return the last compared listing of each resource type of each cloud, or of one."""
    rows = connection.execute(
        """
        select c.cloud, t.resource_type, l.started_at, l.listed
        from reporting.clouds as c
        inner join (select distinct platform, resource_type from reporting.resource_types) as t
            on t.platform = c.platform
        cross join lateral (
            select given.started_at, given.listed
            from reporting.sync_listings as given
            where given.cloud = c.cloud and given.resource_type = t.resource_type and given.status = 'compared'
            order by given.sync_id desc
            limit 1
        ) as l
        where %(cloud)s::text is null or c.cloud = %(cloud)s::text
        order by c.cloud, t.resource_type
        """,
        {"cloud": cloud},
        prepare=False,
    ).fetchall()
    return [LastListing(*row) for row in rows]
