"""SQL of the events: identity, storage, history. Set-based: one statement per batch, arrays in, rows out."""

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

from tally.domain.event import Event
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.reporting.registry import REGISTRY_LOCK, VERSION

Identity = tuple[str, str]  # (cloud, event_id)
Resource = tuple[str, str, str]  # (cloud, resource_type, resource_id)


class NewEvent(NamedTuple):
    """An event to be stored, with its content hash and its payload as JSON text."""

    event: Event
    content_hash: bytes
    payload: str


class Begun(NamedTuple):
    """A batch that has begun, and the version of the registry that holds until its end."""

    batch_id: int
    registry_version: int


def begin_batch(connection: Connection) -> Begun:
    """Begin a new batch, in its transaction, for whose duration no definition changes (registry.hold).

    From here to the end of the transaction all rows are looked up by their keys: the planner would rather read a table
    of some ten thousand rows whole, for every batch again.
    """
    with connection.pipeline():  # the version is read by a snapshot of its own, once the lock is held
        begun = connection.execute(
            "select nextval('reporting.batch_ids'), set_config('enable_seqscan', 'off', true),"
            " pg_advisory_xact_lock_shared(%s)",
            [REGISTRY_LOCK],
        )
        version = connection.execute(VERSION)
    (batch_id, *_), (registry_version,) = *begun, *version
    return Begun(batch_id, registry_version)


def store(connection: Connection, batch_id: int, events: Sequence[NewEvent]) -> int:
    """Store those of the events whose identity is new, and return how many they were; each identity is given once.

    Identities are claimed in the order of (cloud, event_id), so that two batches that hold the same ones wait for
    each other and never for each other in a circle.
    """
    cursor = connection.execute(
        """
        with input as materialized (
            select *
            from unnest(
                %b::text[], %b::text[], %b::text[], %b::text[], %b::timestamptz[],
                %b::text[], %b::text[], %b::text[], %b::text[], %b::text[], %b::bytea[]
            ) as given (
                cloud, platform, resource_type, resource_id, timestamp,
                event_id, event_type, project_id, source, payload, content_hash
            )
        ),
        claimed as (
            insert into reporting.event_ids
                (cloud, event_id, resource_type, resource_id, timestamp, content_hash, batch_id)
            select cloud, event_id, resource_type, resource_id, timestamp, content_hash, %s::bigint
            from input
            order by cloud collate "C", event_id collate "C"
            on conflict (cloud, event_id) do nothing
            returning cloud, event_id
        )
        insert into reporting.events (
            cloud, platform, resource_type, resource_id, timestamp,
            event_id, event_type, project_id, source, payload
        )
        select
            input.cloud, input.platform, input.resource_type, input.resource_id, input.timestamp,
            input.event_id, input.event_type, input.project_id, input.source, input.payload::jsonb
        from input
        inner join claimed on claimed.cloud = input.cloud and claimed.event_id = input.event_id
        """,
        [*(list(column) for column in zip(*map(_columns, events), strict=True)), batch_id],
    )
    return cursor.rowcount


def event_of(row: Sequence[Any]) -> Event:
    """An event from its row: the columns in the order of its fields, the payload as JSON text."""
    event_id, timestamp, event_type, platform, cloud, resource_type, resource_id, project_id, source, payload = row
    return Event(
        event_id,
        timestamp,
        event_type,
        platform,
        cloud,
        resource_type,
        resource_id,
        project_id,
        source,
        read_json(payload),
    )


def _columns(new: NewEvent) -> tuple[object, ...]:
    event = new.event
    return (
        event.cloud,
        event.platform,
        event.resource_type,
        event.resource_id,
        event.timestamp,
        event.event_id,
        event.event_type,
        event.project_id,
        event.source,
        new.payload,
        new.content_hash,
    )


def known(connection: Connection, identities: Collection[Identity], *, but_batch: int = 0) -> dict[Identity, bytes]:
    """Return the content hash of each identity that is stored, those of one batch left out; there is no batch 0."""
    rows = connection.execute(
        """
        select ids.cloud, ids.event_id, ids.content_hash
        from unnest(%b::text[], %b::text[]) as given (cloud, event_id)
        inner join reporting.event_ids as ids on ids.cloud = given.cloud and ids.event_id = given.event_id
        where ids.batch_id <> %s
        """,
        [*transposed(identities, 2), but_batch],
        prepare=False,
    ).fetchall()
    return {(cloud, event_id): content for cloud, event_id, content in rows}


def announce(connection: Connection, batch_id: int) -> None:
    """Put a batch into the outbox: the load into the metering database takes it from there."""
    connection.execute("insert into reporting.pending_batches (batch_id) values (%s)", [batch_id])


def histories(connection: Connection, resources: Collection[Resource]) -> dict[Resource, list[Event]]:
    """Return all stored events of each of these resources, in no order; resources without events are left out."""
    rows = connection.execute(
        """
        select
            e.event_id, e.timestamp, e.event_type, e.platform, e.cloud,
            e.resource_type, e.resource_id, e.project_id, e.source, e.payload::text
        from unnest(%b::text[], %b::text[], %b::text[]) as given (cloud, resource_type, resource_id)
        inner join reporting.events as e
            on e.cloud = given.cloud and e.resource_type = given.resource_type and e.resource_id = given.resource_id
        """,
        transposed(resources, 3),
        prepare=False,
    )
    found: dict[Resource, list[Event]] = defaultdict(list)
    for row in rows:
        event = event_of(row)
        found[event.resource].append(event)
    return found


def transposed(rows: Collection[Sequence[str]], width: int) -> list[list[str]]:
    """Turn rows into columns, the form in which arrays go to the server."""
    return [[row[column] for row in rows] for column in range(width)]
