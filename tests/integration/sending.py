"""Events as collectors send them, and what the reporting database holds of them: the words of the ingest tests."""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import simplejson

from tally.domain.instants import parse_instant
from tally.domain.principal import Scope
from tally.services.ingest import Ingest, Outcome
from tally.store.database import Connection

NOW = parse_instant("2026-06-01T00:00:00Z")
CLOUD = "os-prod-eu1"
LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80}

CREATE = "volume.create.end"
RESIZE = "volume.resize.end"
DELETE = "volume.delete.end"

# Everything that a row of the projection says.
ROW = (
    "cloud, platform, resource_type, resource_id, project_id, state, last_state, size::text, created_at, deleted_at,"
    " last_event_id, last_event_type, last_event_at, has_synthetic"
)


def event(event_id: str, when: str, event_type: str, resource_id: str = "v-1", **fields: Any) -> dict[str, Any]:
    """An event of a volume in March 2026; ``when`` is a day and a time such as 05T10:00:00."""
    return {
        "event_id": event_id,
        "timestamp": f"2026-03-{when}Z",
        "event_type": event_type,
        "platform": "openstack",
        "cloud": CLOUD,
        "resource_type": "volume",
        "resource_id": resource_id,
        "project_id": "p-1",
        "payload": {},
    } | fields


def volume(event_id: str, when: str, event_type: str, size_gb: int, **fields: Any) -> dict[str, Any]:
    """The same with a size."""
    return event(event_id, when, event_type, payload={"size": {"size_gb": size_gb}}, **fields)


def door(reporting: Connection, now: datetime = NOW, scope: Scope | None = None) -> Ingest:
    """The ingest service with a clock that stands still."""
    return Ingest(reporting, clock=lambda: now, clock_skew=timedelta(minutes=5), actor="test", scope=scope)


def raw(sent: Mapping[str, Any]) -> bytes:
    """The JSON text of an event."""
    return bytes(simplejson.dumps(sent, use_decimal=True).encode())


def send(reporting: Connection, *sent: Mapping[str, Any] | bytes) -> list[Outcome]:
    """Send one batch."""
    return door(reporting).ingest([each if isinstance(each, bytes) else raw(each) for each in sent])


def statuses(outcomes: Iterable[Outcome]) -> list[str]:
    """What became of each, the reason where there is one."""
    return [outcome.reason or outcome.status for outcome in outcomes]


def stored(reporting: Connection) -> list[str]:
    """The ids of all stored events, in the order of time."""
    return [row[0] for row in reporting.execute("select event_id from reporting.events order by timestamp, event_id")]


def dead_letters(reporting: Connection) -> list[tuple[str, str, str]]:
    """(cloud, event_id, reason) of all dead letters."""
    return reporting.execute(
        "select cloud, event_id, reason from reporting.rejected_events order by cloud, event_id, reason"
    ).fetchall()


def current(reporting: Connection, resource_id: str = "v-1") -> Mapping[str, Any]:
    """What the projection says of a resource, by column; size as a dictionary."""
    cursor = reporting.execute(
        "select project_id, state, size::text, created_at, deleted_at, last_event_id, has_synthetic"
        " from reporting.current_resources where resource_id = %s",
        [resource_id],
    )
    row = cursor.fetchone()
    assert row is not None
    assert cursor.description is not None
    named = dict(zip((column.name for column in cursor.description), row, strict=True))
    return named | {"size": json.loads(named["size"])}


def projection(reporting: Connection) -> Sequence[tuple[Any, ...]]:
    """The whole projection."""
    return reporting.execute(
        f"select {ROW} from reporting.current_resources order by cloud, resource_type, resource_id".encode()
    ).fetchall()


def at(when: str) -> datetime:
    """An instant of March 2026, such as 05T10:00:00."""
    return parse_instant(f"2026-03-{when}Z")


def count(reporting: Connection, table: str) -> int:
    """How many rows a table of the reporting database has."""
    row = reporting.execute(f"select count(*) from reporting.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])
