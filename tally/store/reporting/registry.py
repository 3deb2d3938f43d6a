"""SQL of the registry: clouds and resource types. What a definition means is the domain's business."""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from tally.store.database import Connection
from tally.store.json_text import read_json, write_json

REGISTRY_LOCK = 0x7A11_0003  # shared by who applies definitions to events, exclusive for who changes them

VERSION: LiteralString = "select coalesce(max(version), 0) from reporting.resource_types"


class DefinitionRow(NamedTuple):
    """One version of a definition."""

    platform: str
    resource_type: str
    version: int
    definition: Mapping[str, Any]
    content_hash: str
    origin: str
    created_at: datetime


class PendingFold(NamedTuple):
    """A version whose resources have still to be folded again."""

    version: int
    platform: str
    resource_type: str


def version(connection: Connection) -> int:
    """Return the version of the whole registry; 0 if it is empty."""
    row = connection.execute(VERSION).fetchone()
    assert row is not None
    return int(row[0])


def definitions(
    connection: Connection,
    *,
    platform: str | None = None,
    after: tuple[str, str] | None = None,
    limit: int | None = None,
) -> list[DefinitionRow]:
    """Return the definition that holds for each resource type, its greatest version, by (platform, resource_type)."""
    after_platform, after_type = after or (None, None)
    rows = connection.execute(
        """
        select distinct on (platform, resource_type)
            platform, resource_type, version, definition::text, content_hash, origin, created_at
        from reporting.resource_types
        where (%(platform)s::text is null or platform = %(platform)s)
            and (%(after_platform)s::text is null
                or (platform, resource_type) > (%(after_platform)s, %(after_type)s))
        order by platform, resource_type, version desc
        limit %(limit)s
        """,
        {"platform": platform, "after_platform": after_platform, "after_type": after_type, "limit": limit},
        prepare=False,
    ).fetchall()
    return [_definition(row) for row in rows]


def versions(connection: Connection, platform: str, resource_type: str) -> list[DefinitionRow]:
    """Return all versions of one resource type, the one that holds last."""
    rows = connection.execute(
        """
        select platform, resource_type, version, definition::text, content_hash, origin, created_at
        from reporting.resource_types
        where platform = %s and resource_type = %s
        order by version
        """,
        [platform, resource_type],
    ).fetchall()
    return [_definition(row) for row in rows]


def lock_definitions(connection: Connection) -> None:
    """Let one transaction at a time add definitions; readers are not held up."""
    connection.execute("lock table reporting.resource_types in share row exclusive mode")


def hold(connection: Connection) -> None:
    """Let no definition change until the transaction ends.

    Whoever folds events takes this before all other locks and reads the version of the registry after it.
    """
    connection.execute("select pg_advisory_xact_lock_shared(%s)", [REGISTRY_LOCK])


def add_definition(
    connection: Connection,
    platform: str,
    resource_type: str,
    definition: Mapping[str, Any],
    content_hash: str,
    origin: str,
) -> int:
    """Add a version and return its number, after all who apply the former definitions are done."""
    connection.execute("select pg_advisory_xact_lock(%s)", [REGISTRY_LOCK])
    added = version(connection) + 1
    connection.execute(
        "insert into reporting.resource_types"
        " (platform, resource_type, version, definition, content_hash, origin)"
        " values (%s, %s, %s, %s::jsonb, %s, %s)",
        [platform, resource_type, added, write_json(definition), content_hash, origin],
    )
    return added


def begin_fold(connection: Connection, version: int) -> None:
    """Note that resources have to be folded again, in the transaction that adds the version."""
    connection.execute("insert into reporting.pending_folds (version) values (%s)", [version])


def end_fold(connection: Connection, version: int) -> None:
    """Note that it is done, by whomever."""
    connection.execute("delete from reporting.pending_folds where version = %s", [version])


def pending_folds(connection: Connection, key: tuple[str, str] | None) -> list[PendingFold]:
    """Return what has to be folded again, of one (platform, resource_type) or of all, the oldest first."""
    platform, resource_type = key or (None, None)
    rows = connection.execute(
        """
        select p.version, t.platform, t.resource_type
        from reporting.pending_folds as p
        inner join reporting.resource_types as t on t.version = p.version
        where %(platform)s::text is null or (t.platform, t.resource_type) = (%(platform)s, %(type)s)
        order by p.version
        """,
        {"platform": platform, "type": resource_type},
    ).fetchall()
    return [PendingFold(*row) for row in rows]


def _definition(row: tuple[Any, ...]) -> DefinitionRow:
    platform, resource_type, number, definition, content_hash, origin, created_at = row
    return DefinitionRow(platform, resource_type, number, read_json(definition), content_hash, origin, created_at)


def platforms(connection: Connection, clouds: Iterable[str]) -> dict[str, str]:
    """Return the platform of each of these clouds that is registered."""
    rows = connection.execute(
        "select cloud, platform from reporting.clouds where cloud = any(%s)", [list(clouds)]
    ).fetchall()
    return dict(rows)


def register_clouds(connection: Connection, clouds: Mapping[str, str]) -> list[str]:
    """Register clouds with their platforms, except those that are registered by now; waits for who is doing so.

    Returns those that are new.
    """
    rows = connection.execute(
        "insert into reporting.clouds (cloud, platform)"
        " select cloud, platform from unnest(%s::text[], %s::text[]) as given (cloud, platform)"
        ' order by cloud collate "C" on conflict (cloud) do nothing returning cloud',
        [list(clouds), list(clouds.values())],
    )
    return [cloud for (cloud,) in rows]
