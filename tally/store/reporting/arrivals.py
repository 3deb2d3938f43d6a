"""SQL of what has arrived and is not metered yet, and of clouds from which nothing arrives any more."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tally.store.database import Connection


class LastHeard(NamedTuple):
    """The instant of the last event of a cloud, its collector's or a synthetic one."""

    cloud: str
    last_event_at: datetime


def waiting_before(connection: Connection, instants: Sequence[datetime]) -> list[int]:
    """Count the events that wait for a load and are of before each of these instants, given in ascending order.

    One at such an instant counts if it ends a life, or if its resource has usage then: where a life ends, usage belongs
    to what was before.
    """
    if not instants:
        return []
    rows = connection.execute(
        """select width_bucket(
               i.timestamp - case when i.timestamp = any(%(instants)s) and exists (
                   select from reporting.events as e
                   inner join reporting.resource_types as t
                       on t.platform = e.platform and t.resource_type = e.resource_type
                   cross join lateral (select t.definition -> 'lifecycle' -> e.event_type as told) as does
                   where e.cloud = i.cloud and e.resource_type = i.resource_type and e.resource_id = i.resource_id
                       and e.timestamp = i.timestamp
                       and (e.payload -> 'usage' not in ('null', '{}')
                           or (e.event_id = i.event_id and (e.event_type = 'reconcile.delete'
                               or coalesce(does.told ->> 'effect', does.told #>> '{}') = 'delete')))
               ) then interval '1 microsecond' else interval '0' end,
               %(instants)s::timestamptz[]), count(*)
           from reporting.event_ids as i
           where i.batch_id = any(array(select batch_id from reporting.pending_batches))
           group by 1""",
        {"instants": list(instants)},
    ).fetchall()
    # Bucket n holds what is not before the first n instants, but before the next one.
    return [sum(count for bucket, count in rows if bucket <= position) for position in range(len(instants))]


def silent_clouds(connection: Connection, since: datetime) -> list[LastHeard]:
    """Return the clouds that have open resources, but no event of their collector of ``since`` or later."""
    rows = connection.execute(
        """select c.cloud, heard.last_event_at
           from reporting.clouds as c
           cross join lateral (
               select max(r.last_event_at) as last_event_at,
                   bool_or(r.created_at is not null and r.deleted_at is null) as lives
               from reporting.current_resources as r
               where r.cloud = c.cloud
           ) as heard
           where heard.lives and not exists (
               select from reporting.events as e
               where e.cloud = c.cloud and e.timestamp >= %s and e.source = 'collector')
           order by c.cloud""",
        [since],
    ).fetchall()
    return [LastHeard(*row) for row in rows]
