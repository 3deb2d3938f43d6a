"""What the reporting and the metering database know of each other: loads that took batches, and events that one lacks.

Either may have been restored from a backup. What loads copy belongs in tally.store.metering.load.
"""

from collections.abc import Generator
from datetime import datetime
from typing import NamedTuple

from tally.domain.event import Event
from tally.store.database import Connection
from tally.store.reporting.events import event_of, known

EVENTS_AT_ONCE = 1_000


class Taken(NamedTuple):
    """A load that took batches out of the outbox."""

    load_id: int
    started_at: datetime


def last_taken(reporting: Connection) -> Taken | None:
    """The last load that took batches, as the reporting database remembers it."""
    row = reporting.execute("select load_id, started_at from reporting.last_load").fetchone()
    return Taken(*row) if row else None


def last_brought(metering: Connection) -> Taken | None:
    """The last load that brought events, as the metering database has it."""
    row = metering.execute(
        "select load_id, started_at from raw.loads where events > 0 order by load_id desc limit 1"
    ).fetchone()
    return Taken(*row) if row else None


def holds(metering: Connection, taken: Taken) -> bool:
    """Whether the metering database has a load."""
    found = metering.execute("select load_id from raw.loads where load_id = %s and started_at = %s", taken)
    return found.fetchone() is not None


def remember(reporting: Connection, taken: Taken) -> None:
    """Let a load be the last one that took batches."""
    reporting.execute(
        """insert into reporting.last_load (load_id, started_at) values (%s, %s)
           on conflict (single) do update set load_id = excluded.load_id, started_at = excluded.started_at""",
        taken,
    )


def put_back_batches(reporting: Connection) -> int:
    """Put all batches that there ever were back into the outbox, whoever has them; returns how many were not in it."""
    return reporting.execute(
        """insert into reporting.pending_batches (batch_id)
           select distinct batch_id from reporting.event_ids
           on conflict do nothing"""
    ).rowcount


def count_brought(metering: Connection, after: int) -> int:
    """How many events the loads after a number brought."""
    row = metering.execute(
        "select coalesce(sum(events), 0)::bigint from raw.loads where load_id > %s", [after]
    ).fetchone()
    assert row is not None
    return int(row[0])


def forget(reporting: Connection) -> None:
    """Let no load have taken batches, as before the first."""
    reporting.execute("delete from reporting.last_load")


def events_lacking(
    reporting: Connection, metering: Connection, after: int, at_once: int = EVENTS_AT_ONCE
) -> Generator[tuple[int, list[Event]]]:
    """Look at what loads after a number brought, in parts: how many events, and which the reporting database lacks."""
    with metering.transaction(), metering.cursor("brought") as cursor:
        cursor.execute(
            """select event_id, timestamp, event_type, platform, cloud, resource_type, resource_id, project_id, source,
                   payload::text
               from raw.events where load_id > %s
               order by cloud, resource_type, resource_id, timestamp, event_id""",
            [after],
        )
        while rows := cursor.fetchmany(at_once):
            events = [event_of(row) for row in rows]
            stored = known(reporting, [(event.cloud, event.event_id) for event in events])
            yield len(events), [event for event in events if (event.cloud, event.event_id) not in stored]
