"""SQL of clouds as people register them. Ingest registers its own, a batch at a time: registry.py."""

from datetime import datetime
from typing import NamedTuple

from tally.store.database import Connection


class CloudRow(NamedTuple):
    """One installation of a platform."""

    cloud: str
    platform: str
    created_at: datetime


def add_cloud(connection: Connection, platform: str, cloud: str) -> bool:
    """Register a cloud, unless it is registered; returns whether it is new."""
    added = connection.execute(
        "insert into reporting.clouds (cloud, platform) values (%s, %s) on conflict (cloud) do nothing",
        [cloud, platform],
    )
    return added.rowcount == 1


def select_clouds(
    connection: Connection,
    *,
    platform: str | None = None,
    cloud: str | None = None,
    after: str | None = None,
    limit: int | None = None,
) -> list[CloudRow]:
    """Return the clouds that are all that is asked for, by name, after ``after``."""
    rows = connection.execute(
        """select cloud, platform, created_at from reporting.clouds
           where (%(platform)s::text is null or platform = %(platform)s)
               and (%(cloud)s::text is null or cloud = %(cloud)s)
               and (%(after)s::text is null or cloud > %(after)s)
           order by cloud limit %(limit)s""",
        {"platform": platform, "cloud": cloud, "after": after, "limit": limit},
    ).fetchall()
    return [CloudRow(*row) for row in rows]
