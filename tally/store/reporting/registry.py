"""SQL of the registry: clouds and resource types. What a definition means is the domain's business."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from tally.store.database import Connection
from tally.store.json_text import read_json, write_json


class DefinitionRow(NamedTuple):
    """One version of a definition."""

    platform: str
    resource_type: str
    version: int
    definition: Mapping[str, Any]
    content_hash: str
    origin: str


def version(connection: Connection) -> int:
    """Return the version of the whole registry; 0 if it is empty."""
    row = connection.execute("select coalesce(max(version), 0) from reporting.resource_types").fetchone()
    assert row is not None
    return int(row[0])


def definitions(connection: Connection) -> list[DefinitionRow]:
    """Return the definition that holds for each resource type: its greatest version."""
    rows = connection.execute(
        "select distinct on (platform, resource_type)"
        " platform, resource_type, version, definition::text, content_hash, origin"
        " from reporting.resource_types order by platform, resource_type, version desc"
    ).fetchall()
    return [
        DefinitionRow(platform, resource_type, version_, read_json(definition), content_hash, origin)
        for platform, resource_type, version_, definition, content_hash, origin in rows
    ]


def lock_definitions(connection: Connection) -> None:
    """Let one transaction at a time add definitions; readers are not held up."""
    connection.execute("lock table reporting.resource_types in share row exclusive mode")


def add_definition(connection: Connection, row: DefinitionRow) -> None:
    """Add a version."""
    connection.execute(
        "insert into reporting.resource_types"
        " (platform, resource_type, version, definition, content_hash, origin)"
        " values (%s, %s, %s, %s::jsonb, %s, %s)",
        [row.platform, row.resource_type, row.version, write_json(row.definition), row.content_hash, row.origin],
    )


def platforms(connection: Connection, clouds: Iterable[str]) -> dict[str, str]:
    """Return the platform of each of these clouds that is registered."""
    rows = connection.execute(
        "select cloud, platform from reporting.clouds where cloud = any(%s)", [list(clouds)]
    ).fetchall()
    return dict(rows)


def register_clouds(connection: Connection, clouds: Mapping[str, str]) -> None:
    """Register clouds with their platforms, except those that are registered by now; waits for who is doing so."""
    connection.execute(
        "insert into reporting.clouds (cloud, platform)"
        " select cloud, platform from unnest(%s::text[], %s::text[]) as given (cloud, platform)"
        ' order by cloud collate "C" on conflict (cloud) do nothing',
        [list(clouds), list(clouds.values())],
    )
