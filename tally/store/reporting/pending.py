"""What waits in the outbox reporting.pending_batches for the next load into the metering database."""

from datetime import datetime

from tally.store.database import Connection
from tally.store.reporting.events import Resource


def pending_resources(connection: Connection, until: datetime, limit: int) -> list[Resource]:
    """Resources with pending events that could change what was used until an instant.

    An event up to it can; so can a later one, where it decides whether a synthetic event is void.
    """
    return connection.execute(
        """select distinct e.cloud, e.resource_type, e.resource_id
           from reporting.event_ids as i
           inner join reporting.events as e
               on e.cloud = i.cloud and e.resource_type = i.resource_type and e.resource_id = i.resource_id
                   and e.timestamp = i.timestamp and e.event_id = i.event_id
           where i.batch_id = any(array(select batch_id from reporting.pending_batches)) and (
               i.timestamp <= %(until)s
               or exists (
                   select from reporting.events as s
                   where s.cloud = e.cloud and s.resource_type = e.resource_type and s.resource_id = e.resource_id
                       and s.source = 'reconciliation' and s.timestamp <= %(until)s))
           order by 1, 2, 3 limit %(limit)s""",
        {"until": until, "limit": limit},
        prepare=False,
    ).fetchall()
