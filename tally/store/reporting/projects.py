"""SQL of projects and their relations; relations are versioned and append-only (rule 28)."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.graph import Relation
from tally.store.database import Connection
from tally.store.json_text import read_json, write_json

_LOCK = 0x7A11_0002  # one writer of projects and relations at a time: cycles are judged over all of them


class ProjectRow(NamedTuple):
    """A registered project."""

    id: UUID
    platform: str
    cloud: str
    external_id: str
    name: str | None
    metadata: Mapping[str, Any]


def lock(connection: Connection) -> None:
    """Let one transaction at a time write projects and relations."""
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])


def projects(connection: Connection) -> list[ProjectRow]:
    """Return all projects, in the order of their addresses."""
    rows = connection.execute(
        "select id, platform, cloud, external_id, name, metadata::text"
        " from reporting.projects order by cloud, external_id"
    ).fetchall()
    return [_project(row) for row in rows]


def projects_at(connection: Connection, address: str) -> list[ProjectRow]:
    """Return the projects whose cloud and external id, with a slash between them, are this address."""
    rows = connection.execute(
        "select id, platform, cloud, external_id, name, metadata::text"
        " from reporting.projects where cloud || '/' || external_id = %s",
        [address],
    ).fetchall()
    return [_project(row) for row in rows]


def add_project(
    connection: Connection, platform: str, cloud: str, external_id: str, name: str | None, metadata: Mapping[str, Any]
) -> UUID | None:
    """Add a project and return its id; None if (cloud, external_id) is taken."""
    row = connection.execute(
        "insert into reporting.projects (platform, cloud, external_id, name, metadata)"
        " values (%s, %s, %s, %s, %s::jsonb) on conflict (cloud, external_id) do nothing returning id",
        [platform, cloud, external_id, name, write_json(metadata)],
    ).fetchone()
    return None if row is None else row[0]


def relations(connection: Connection) -> list[Relation]:
    """Return the version of each relation that holds, in the order of their validity."""
    rows = connection.execute(
        """
        select id, version, source_id, target_id, relation_type, valid_from, valid_to, metadata::text
        from (
            select distinct on (id) * from reporting.project_relations order by id, version desc
        ) as latest
        order by valid_from, id
        """
    ).fetchall()
    return [_relation(row) for row in rows]


def add_relation(connection: Connection, relation: Relation) -> None:
    """Append a version of a relation."""
    connection.execute(
        "insert into reporting.project_relations"
        " (id, version, source_id, target_id, relation_type, valid_from, valid_to, metadata)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s::jsonb)",
        [
            relation.id,
            relation.version,
            relation.source,
            relation.target,
            relation.type,
            relation.valid_from,
            relation.valid_to,
            write_json(relation.metadata),
        ],
    )


def _project(row: Sequence[Any]) -> ProjectRow:
    id_, platform, cloud, external_id, name, metadata = row
    return ProjectRow(id_, platform, cloud, external_id, name, read_json(metadata))


def _relation(row: Sequence[Any]) -> Relation:
    id_, version, source, target, relation_type, valid_from, valid_to, metadata = row
    return Relation(id_, version, source, target, relation_type, valid_from, valid_to, read_json(metadata))
