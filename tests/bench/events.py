"""A made-up cloud for the benchmarks: deterministic events of two months, and a direct way into the database.

Each resource is created, changes size, state or owner, and most are deleted, some time in between; the events of all
resources come in the order of time. Nothing here goes through the ingest service, so that it can be compared with.
"""

import hashlib
import random
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice

from tally.domain.event import Event, content_hash, encode_event
from tally.store.database import Connection
from tally.store.json_text import write_json

START = datetime(2026, 2, 1, tzinfo=UTC)
END = datetime(2026, 4, 1, tzinfo=UTC)

PLATFORM = "openstack"
CLOUDS = ("os-bench-1", "os-bench-2")
PROJECTS = 500
FLAVORS = (
    {"vcpus": 1, "ram_gb": 2, "disk_gb": 20, "flavor": "m1.small"},
    {"vcpus": 2, "ram_gb": 4, "disk_gb": 40, "flavor": "m1.medium"},
    {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"},
    {"vcpus": 8, "ram_gb": 16, "disk_gb": 160, "flavor": "m1.xlarge"},
)
# Event types of an instance and of a volume between its creation and its deletion.
CHANGES = {
    "instance": (
        "compute.instance.finish_resize.end",
        "compute.instance.power_off.end",
        "compute.instance.power_on.end",
        "compute.instance.exists",
    ),
    "volume": ("volume.resize.end", "volume.attach.end", "volume.detach.end", "volume.transfer.accept.end"),
}
CREATE = {"instance": "compute.instance.create.end", "volume": "volume.create.end"}
DELETE = {"instance": "compute.instance.delete.end", "volume": "volume.delete.end"}

EVENT_COLUMNS = (
    "cloud, platform, resource_type, resource_id, timestamp, event_id, event_type, project_id, source, payload"
)
# jsonb travels as bytes that begin with a version; declared as bytes, it passes without being written as JSON again.
EVENT_TYPES = ("text", "text", "text", "text", "timestamptz", "text", "text", "text", "text", "bytea")


def events(count: int, resources: int, seed: int = 1) -> Iterator[Event]:
    """Yield ``count`` events over ``resources`` resources in the order of time, the same for the same arguments."""
    if not 2 * resources <= count:
        raise ValueError("a resource has at least two events")
    chance = random.Random(seed)
    span = int((END - START) / timedelta(microseconds=1))
    owners = list(range(resources)) * 2
    owners += (chance.randrange(resources) for _ in range(count - len(owners)))
    moments = sorted((chance.randrange(span), owner) for owner in owners)
    left = [0] * resources
    for _, owner in moments:
        left[owner] += 1
    total = left.copy()
    for moment, owner in moments:
        left[owner] -= 1
        yield _event(seed, owner, total[owner] - left[owner], left[owner], START + timedelta(microseconds=moment))


def raw_events(count: int, resources: int, seed: int = 1) -> Iterator[bytes]:
    """Yield the same events as a collector would send them."""
    return map(encode_event, events(count, resources, seed))


def copy_rows(connection: Connection, rows: Iterable[tuple[object, ...]], table: str) -> int:
    """Put rows of event_row into a table by binary COPY, and return how many they were."""
    return _copy(connection, f"{table} ({EVENT_COLUMNS})", EVENT_TYPES, rows)


def copy_raw(metering: Connection, some: Iterable[Event], load_id: int = 1, registry_version: int = 1) -> int:
    """Put events into raw.events of the metering database as one load, and return how many they were."""
    with metering.transaction():
        rows = ((*event_row(event), load_id) for event in some)
        copied = _copy(metering, f"raw.events ({EVENT_COLUMNS}, load_id)", (*EVENT_TYPES, "bigint"), rows)
        metering.execute(
            "insert into raw.loads (load_id, started_at, registry_version, events) values (%s, %s, %s, %s)",
            [load_id, END, registry_version, copied],
        )
    return copied


def _copy(connection: Connection, target: str, types: Sequence[str], rows: Iterable[tuple[object, ...]]) -> int:
    copied = 0
    with connection.cursor().copy(f"copy {target} from stdin (format binary)".encode()) as copy:
        copy.set_types(types)
        for row in rows:
            copy.write_row(row)
            copied += 1
    return copied


def event_row(event: Event) -> tuple[object, ...]:
    """Return an event as a row of EVENT_COLUMNS for binary COPY."""
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
        b"\x01" + write_json(event.payload).encode(),
    )


def copy_reporting(connection: Connection, some: Iterator[Event], batch: int = 100_000) -> int:
    """Fill clouds, events, event_ids and the outbox of the reporting database; rebuild() makes the projection of it."""
    copied = 0
    for cloud in CLOUDS:
        connection.execute(
            "insert into reporting.clouds (cloud, platform) values (%s, %s) on conflict do nothing", [cloud, PLATFORM]
        )
    while chunk := list(islice(some, batch)):
        with connection.transaction():
            copied += copy_rows(connection, map(event_row, chunk), "reporting.events")
            row = connection.execute("select nextval('reporting.batch_ids')").fetchone()
            assert row is not None
            connection.execute("insert into reporting.pending_batches (batch_id) values (%s)", [row[0]])
            _copy_identities(connection, chunk, row[0])
    return copied


def _copy_identities(connection: Connection, some: Iterable[Event], batch_id: int) -> None:
    _copy(
        connection,
        "reporting.event_ids (cloud, event_id, resource_type, resource_id, timestamp, content_hash, batch_id)",
        ("text", "text", "text", "text", "timestamptz", "bytea", "bigint"),
        (
            (event.cloud, event.event_id, *event.resource[1:], event.timestamp, content_hash(event), batch_id)
            for event in some
        ),
    )


def _event(seed: int, owner: int, number: int, left: int, at: datetime) -> Event:
    """Return the number-th event of a resource that has ``left`` more to come."""
    resource_type = "volume" if owner % 3 == 0 else "instance"
    name = _name(seed, owner)
    if number == 1:
        event_type = CREATE[resource_type]
    elif left == 0 and owner % 4:  # a quarter lives on
        event_type = DELETE[resource_type]
    else:
        event_type = CHANGES[resource_type][(owner + number) % 4]
    project = owner % PROJECTS + (number if event_type == "volume.transfer.accept.end" else 0)
    return Event(
        event_id=_name(seed, owner, number),
        timestamp=at,
        event_type=event_type,
        platform=PLATFORM,
        cloud=CLOUDS[owner % len(CLOUDS)],
        resource_type=resource_type,
        resource_id=name,
        project_id=_name(seed, "project", project % PROJECTS),
        source="collector",
        payload=_payload(resource_type, event_type, owner, number),
    )


def _payload(resource_type: str, event_type: str, owner: int, number: int) -> dict[str, object]:
    payload: dict[str, object] = {"name": f"{resource_type}-{owner}", "host": f"compute-{owner % 97:03d}"}
    if resource_type == "instance" and event_type in (CREATE["instance"], "compute.instance.finish_resize.end"):
        payload["size"] = FLAVORS[(owner + number) % len(FLAVORS)]
    if resource_type == "volume" and event_type in (CREATE["volume"], "volume.resize.end"):
        payload["size"] = {"size_gb": 10 * (1 + (owner + number) % 50), "type": "hdd" if owner % 2 else "ssd"}
    return payload


def _name(*parts: object) -> str:
    """Return a name in the form of a UUID, the same for the same parts."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=16).hexdigest()
    return f"{digest[:8]}-{digest[8:12]}-{digest[12:16]}-{digest[16:20]}-{digest[20:]}"
