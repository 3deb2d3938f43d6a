"""The raw copy: what has arrived in the reporting database, into schema raw of the metering database (rule 18).

Events go by arrival, one batch of the outbox reporting.pending_batches after the other, whatever month they are of.
Small tables are taken whole, since their rows are never edited; of projects, whose rows are, each load keeps what has
changed. The projection replaces the one before.

Events are copied in the order of their key, right into their table: its index then grows at its end, and what reads
the histories of many resources, one after the other, finds each in a few neighbouring pages, already in order.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from psycopg.errors import UniqueViolation

from tally.store.database import Connection
from tally.store.statistics import analyze

_EVENT = """
    select e.cloud, e.platform, e.resource_type, e.resource_id, e.timestamp, e.event_id, e.event_type,
        e.project_id, e.source, e.payload, {load_id}::bigint as load_id"""

_IS_PENDING = "i.batch_id = any(array(select batch_id from reporting.pending_batches))"

# The order costs most of it: a number for each resource is compared in a third of the time that its key takes. Those of
# a resource that the projection lacks come last, which costs only the order.
_ALL_EVENTS = f"""
    with numbered as (
        select cloud, resource_type, resource_id, row_number() over (order by cloud, resource_type, resource_id) as n
        from reporting.current_resources
    )
    {_EVENT}
    from reporting.events as e
    left join numbered using (cloud, resource_type, resource_id)
    order by numbered.n, e.timestamp, e.event_id"""

_PENDING_EVENTS = f"""{_EVENT}
    from reporting.events as e
    inner join reporting.event_ids as i
        on i.cloud = e.cloud and i.resource_type = e.resource_type and i.resource_id = e.resource_id
        and i.timestamp = e.timestamp and i.event_id = e.event_id
    where {_IS_PENDING}
    order by e.cloud, e.resource_type, e.resource_id, e.timestamp, e.event_id"""

_BLOCK = 1 << 16  # bytes

_COPIES = (
    (
        "lifecycles",
        """select t.platform, t.resource_type, step.key, t.version,
               coalesce(step.value ->> 'effect', step.value #>> '{{}}'), step.value ->> 'state'
           from reporting.resource_types as t
           cross join jsonb_each(
               (t.definition -> 'lifecycle')
               || '{{"reconcile.create": "create", "reconcile.update": "update", "reconcile.delete": "delete"}}'
           ) as step""",
    ),
    (
        "resource_types",
        """select platform, resource_type, version,
               array(select jsonb_array_elements_text(coalesce(definition -> 'normal_states', '[]'))),
               array(select jsonb_array_elements_text(coalesce(definition -> 'descriptive', '[]')))
           from reporting.resource_types""",
    ),
    (
        "projects",
        "select id, platform, cloud, external_id, name, {load_id}::bigint, metadata from reporting.projects",
    ),
    (
        "project_relations",
        """select id, version, source_id, target_id, relation_type, metadata, valid_from, valid_to, {load_id}::bigint
           from reporting.project_relations""",
    ),
)

_PROJECTION = """
    select cloud, platform, resource_type, resource_id, project_id, last_state, size, created_at, deleted_at
    from reporting.current_resources"""

_CHANGED_PROJECTS = """
    where not exists (
        select from raw.projects as known
        where known.id = incoming.id and known.name is not distinct from incoming.name
            and known.metadata = incoming.metadata
            and not exists (
                select from raw.projects as later where later.id = known.id and later.load_id > known.load_id
            )
    )"""


class LoadCounts(NamedTuple):
    """How much there is after a load."""

    new_events: int
    events: int
    resources: int


def count_loaded(metering: Connection, load_id: int) -> LoadCounts:
    """Count what a load brought and what there is with it, from the small table of loads and the projection."""
    row = metering.execute(
        """select max(events) filter (where load_id = %(load_id)s), sum(events)::bigint,
               (select count(*) from raw.current_resources)
           from raw.loads where load_id <= %(load_id)s""",
        {"load_id": load_id},
    ).fetchone()
    assert row is not None
    return LoadCounts(*row)


def next_load_id(metering: Connection) -> int:
    """The number of the load that begins; the caller holds the lock on metering."""
    return int(_one(metering, "select coalesce(max(load_id), 0) + 1 from raw.loads"))


def pending_batches(reporting: Connection) -> list[int]:
    """The batches of the outbox, in the snapshot of the surrounding transaction."""
    return [row[0] for row in reporting.execute("select batch_id from reporting.pending_batches").fetchall()]


def registry_version(reporting: Connection) -> int:
    """The version of the whole registry of resource types."""
    return int(_one(reporting, "select coalesce(max(version), 0) from reporting.resource_types"))


def begin_load(metering: Connection, load_id: int, started_at: datetime, version: int) -> None:
    """Write the row of the load first, as section 7 of the design asks of every big transaction."""
    metering.execute(
        "insert into raw.loads (load_id, started_at, registry_version, events) values (%s, %s, %s, 0)",
        [load_id, started_at, version],
    )


def copy_all(reporting: Connection, metering: Connection, load_id: int) -> int:
    """Copy everything in the snapshot of the reporting transaction and return how many events were new."""
    events = _copy_events(reporting, metering, load_id)
    metering.execute("delete from raw.current_resources")
    _copy(reporting, metering, _PROJECTION, "raw.current_resources")
    for table, query in _COPIES:
        _copy_new(reporting, metering, table, query.format(load_id=int(load_id)))
    metering.execute("update raw.loads set events = %s where load_id = %s", [events, load_id])
    return events


def refresh_statistics(metering: Connection) -> None:
    """Let the planner know what was copied: the first load fills empty tables, which it would take for tiny."""
    with metering.transaction():
        metering.execute("select brin_summarize_new_values('raw.events_arrival')")
        analyze(metering, "raw.events", "raw.current_resources", "raw.lifecycles", "raw.resource_types")


def forget_pending(reporting: Connection, batches: Sequence[int]) -> None:
    """Take loaded batches out of the outbox: only after the load has committed."""
    reporting.execute("delete from reporting.pending_batches where batch_id = any(%s)", [list(batches)])


def events_query(reporting: Connection, load_id: int) -> str:
    """The query of the pending events, in the order of their key; nothing is looked up where all events are pending."""
    # What was loaded before was also stored before: where anything was, this finds it at once.
    row = reporting.execute(
        f"select exists (select from reporting.event_ids as i where not ({_IS_PENDING}))".encode()
    ).fetchone()
    return (_PENDING_EVENTS if row == (True,) else _ALL_EVENTS).format(load_id=int(load_id))


def _copy_events(reporting: Connection, metering: Connection, load_id: int) -> int:
    query = events_query(reporting, load_id)
    try:
        with reporting.transaction(), metering.transaction():
            return _copy(reporting, metering, query, "raw.events")
    except UniqueViolation:
        # A load that died after it had committed left its batches in the outbox: it is repeated without harm.
        return _copy_new(reporting, metering, "events", query)


def _copy_new(reporting: Connection, metering: Connection, table: str, query: str) -> int:
    """Copy what is not there yet by its key; returns how many rows that were."""
    metering.execute(f"create temp table incoming (like raw.{table}) on commit drop".encode())
    _copy(reporting, metering, query, "incoming")
    new = f"select * from incoming{_CHANGED_PROJECTS if table == 'projects' else ''}"
    copied = metering.execute(f"insert into raw.{table} {new} on conflict do nothing".encode())
    metering.execute("drop table incoming")
    return copied.rowcount


def _copy(reporting: Connection, metering: Connection, query: str, target: str) -> int:
    """Pass rows on as they come, in PostgreSQL's binary form: no row is read here. Returns how many they were.

    They come one by one, and are passed on many at once: each block that is written is sent as a message of its own.
    """
    incoming = metering.cursor()
    with (
        reporting.cursor().copy(f"copy ({query}) to stdout (format binary)".encode()) as rows,
        incoming.copy(f"copy {target} from stdin (format binary)".encode()) as copy,
    ):
        waiting = bytearray()
        for row in rows:
            waiting += row
            if len(waiting) >= _BLOCK:
                copy.write(waiting)
                waiting = bytearray()
        copy.write(waiting)
    return incoming.rowcount


def _one(connection: Connection, query: str) -> int:
    row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return int(row[0])
