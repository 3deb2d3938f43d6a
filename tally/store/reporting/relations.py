"""SQL of the relations between projects: versioned and append-only, the greatest version holds (rule 28)."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any
from uuid import UUID

from tally.domain.graph import Relation
from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.json_text import read_json, write_json
from tally.store.reporting.projects import seen_by

_COLUMNS = "id, version, source_id, target_id, relation_type, valid_from, valid_to, metadata::text, reason"


def select_relations(
    connection: Connection,
    *,
    source: UUID | None = None,
    target: UUID | None = None,
    relation_type: str | None = None,
    at: datetime | None = None,
    visible: Collection[ProjectKey] | None = None,
    after: tuple[datetime, UUID] | None = None,
    limit: int | None = None,
) -> list[Relation]:
    """Return the version that holds of each relation that is all that is asked for, by (valid_from, id), after those.

    Where source and target are given, one of the two suffices. ``at``: valid at this instant. Visible is a relation
    whose two ends are.
    """
    query = f"""
        with latest as (    -- a relation never changes its ends, so that they may be asked for before its version
            select distinct on (id) * from reporting.project_relations
            where (%(source)s::uuid is null and %(target)s::uuid is null)
                or source_id = %(source)s or target_id = %(target)s
            order by id, version desc
        ),

        seen as (
            select id from reporting.projects
            where (cloud, external_id) in (select * from unnest(%(clouds)s::text[], %(external_ids)s::text[]))
        )

        select {_COLUMNS} from latest
        where (%(type)s::text is null or relation_type = %(type)s)
            and (%(at)s::timestamptz is null or (valid_from <= %(at)s and coalesce(valid_to, 'infinity') > %(at)s))
            and (%(all)s or (source_id in (select id from seen) and target_id in (select id from seen)))
            and (%(after)s::timestamptz is null or (valid_from, id) > (%(after)s, %(after_id)s::uuid))
        order by valid_from, id
        limit %(limit)s"""
    after_instant, after_id = after or (None, None)
    asked = {
        "source": source,
        "target": target,
        "type": relation_type,
        "at": at,
        "after": after_instant,
        "after_id": after_id,
        "limit": limit,
    }
    rows = connection.execute(query.encode(), asked | seen_by(visible)).fetchall()
    return [_relation(row) for row in rows]


def find_relation(connection: Connection, relation_id: UUID) -> Relation | None:
    """Return the version of a relation that holds."""
    row = connection.execute(
        f"select {_COLUMNS} from reporting.project_relations where id = %s order by version desc limit 1".encode(),
        [relation_id],
    ).fetchone()
    return None if row is None else _relation(row)


def relation_versions(connection: Connection) -> list[Relation]:
    """Return all versions of all relations, in the order of (id, version)."""
    rows = connection.execute(
        f"select {_COLUMNS} from reporting.project_relations order by id, version".encode()
    ).fetchall()
    return [_relation(row) for row in rows]


def add_relation(connection: Connection, relation: Relation) -> None:
    """Append a version of a relation."""
    connection.execute(
        "insert into reporting.project_relations"
        " (id, version, source_id, target_id, relation_type, valid_from, valid_to, metadata, reason)"
        " values (%s, %s, %s, %s, %s, %s, %s, %s::jsonb, %s)",
        [
            relation.id,
            relation.version,
            relation.source,
            relation.target,
            relation.type,
            relation.valid_from,
            relation.valid_to,
            write_json(relation.metadata),
            relation.reason,
        ],
    )


def _relation(row: Sequence[Any]) -> Relation:
    id_, version, source, target, relation_type, valid_from, valid_to, metadata, reason = row
    return Relation(id_, version, source, target, relation_type, valid_from, valid_to, read_json(metadata), reason)
