"""What the reporting database knows of the completeness of a period: rejected events, silence, listings."""

from collections.abc import Iterator
from datetime import datetime
from typing import NamedTuple

from tally.store.database import Connection

# An event is small; what is larger is judged by when it came.
_READ_BYTES = 256 * 1024
_ROWS_AT_ONCE = 100


class OpenLetter(NamedTuple):
    """A dead letter that was not replayed; ``raw`` is None if it is too large to be read."""

    id: int
    cloud: str
    platform: str
    resource_type: str
    format: str
    reason: str
    received_at: datetime
    raw: bytes | None


class LivingCloud(NamedTuple):
    """A cloud that has resources at an instant."""

    cloud: str
    platform: str


class ListingShortfall(NamedTuple):
    """What the last listing of a resource type found and could not write."""

    cloud: str
    platform: str
    resource_type: str
    started_at: datetime
    rejected: int
    withheld: int


def open_letters(connection: Connection, since: datetime) -> Iterator[OpenLetter]:
    """Read the dead letters that were not replayed and came at ``since`` or later, a few at a time, in a transaction.

    An event that came before cannot have happened later.
    """
    with connection.transaction(), connection.cursor(name="open_letters") as cursor:
        cursor.itersize = _ROWS_AT_ONCE
        cursor.execute(
            """select id, cloud, platform, resource_type, format, reason, received_at,
                   case when octet_length(raw) <= %s then raw end
               from reporting.rejected_events
               where replayed_at is null and received_at >= %s
               order by cloud, platform, resource_type, reason, id""",
            [_READ_BYTES, since],
        )
        for row in cursor:
            yield OpenLetter(*row)


def living_clouds(connection: Connection, at: datetime) -> list[LivingCloud]:
    """Return the clouds that have a resource at an instant."""
    rows = connection.execute(
        """select c.cloud, c.platform
           from reporting.clouds as c
           where exists (
               select from reporting.current_resources as r
               where r.cloud = c.cloud and r.created_at <= %(at)s and (r.deleted_at is null or r.deleted_at >= %(at)s))
           order by c.cloud""",
        {"at": at},
    ).fetchall()
    return [LivingCloud(*row) for row in rows]


def collector_fell_silent(connection: Connection, cloud: str, since: datetime, until: datetime) -> bool:
    """Whether a cloud's collector sent events of before ``since`` and none of from then to ``until``."""
    row = connection.execute(
        """select
               exists (
                   select from reporting.events
                   where cloud = %(cloud)s and source = 'collector' and timestamp < %(since)s)
               and not exists (
                   select from reporting.events
                   where cloud = %(cloud)s and source = 'collector'
                       and timestamp >= %(since)s and timestamp < %(until)s)""",
        {"cloud": cloud, "since": since, "until": until},
    ).fetchone()
    assert row is not None
    return bool(row[0])


def last_completed_syncs(connection: Connection) -> dict[str, datetime]:
    """Return when each cloud was last compared with its platform whole, for those that ever were."""
    rows = connection.execute(
        "select cloud, max(finished_at) from reporting.syncs where status = 'completed' group by cloud"
    ).fetchall()
    return dict(rows)


def listing_shortfalls(connection: Connection, begun_from: datetime, begun_to: datetime) -> list[ListingShortfall]:
    """Return the last listings of a span that could not write all that they found, by (cloud, resource type)."""
    rows = connection.execute(
        """
        select last.cloud, c.platform, last.resource_type, last.started_at, last.rejected, last.withheld
        from (
            select distinct on (cloud, resource_type) cloud, resource_type, started_at, rejected, withheld
            from reporting.sync_listings
            where started_at >= %s and started_at < %s
            order by cloud, resource_type, sync_id desc
        ) as last
        inner join reporting.clouds as c on c.cloud = last.cloud
        where last.rejected > 0 or last.withheld > 0
        order by last.cloud, last.resource_type""",
        [begun_from, begun_to],
    ).fetchall()
    return [ListingShortfall(*row) for row in rows]
