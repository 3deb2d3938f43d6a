"""SQL of projects. Their relations are in relations.py."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any
from uuid import UUID

from tally.domain.principal import ProjectKey
from tally.domain.project import Project
from tally.store.database import Connection
from tally.store.json_text import read_json, write_json

_LOCK = 0x7A11_0002  # one writer of projects and relations at a time: cycles are judged over all of them

_COLUMNS = "id, platform, cloud, external_id, name, metadata::text, created_at"


def lock(connection: Connection) -> None:
    """Let one transaction at a time write projects and relations."""
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])


def select_projects(
    connection: Connection,
    *,
    platform: str | None = None,
    cloud: str | None = None,
    external_id: str | None = None,
    visible: Collection[ProjectKey] | None = None,
    after: ProjectKey | None = None,
    limit: int | None = None,
) -> list[Project]:
    """Return the projects that are all that is asked for, after (cloud, external_id) and in that order."""
    query = f"""
        select {_COLUMNS} from reporting.projects
        where (%(platform)s::text is null or platform = %(platform)s)
            and (%(cloud)s::text is null or cloud = %(cloud)s)
            and (%(external_id)s::text is null or external_id = %(external_id)s)
            and (
                %(all)s
                or (cloud, external_id) in (select * from unnest(%(clouds)s::text[], %(external_ids)s::text[])))
            and (%(after_cloud)s::text is null or (cloud, external_id) > (%(after_cloud)s, %(after_external_id)s))
        order by cloud, external_id
        limit %(limit)s"""
    after_cloud, after_external_id = after or (None, None)
    asked = {
        "platform": platform,
        "cloud": cloud,
        "external_id": external_id,
        "after_cloud": after_cloud,
        "after_external_id": after_external_id,
        "limit": limit,
    }
    rows = connection.execute(query.encode(), asked | seen_by(visible)).fetchall()
    return [_project(row) for row in rows]


def seen_by(visible: Collection[ProjectKey] | None) -> dict[str, Any]:
    """Return the parameters all, clouds and external_ids of a query that shows the visible projects only."""
    keys = sorted(visible or ())
    return {
        "all": visible is None,
        "clouds": [cloud for cloud, _ in keys],
        "external_ids": [external_id for _, external_id in keys],
    }


def projects_of(connection: Connection, ids: Collection[UUID]) -> list[Project]:
    """Return the projects with these ids that exist, in the order of their addresses."""
    rows = connection.execute(
        f"select {_COLUMNS} from reporting.projects where id = any(%s) order by cloud, external_id".encode(),
        [list(ids)],
    ).fetchall()
    return [_project(row) for row in rows]


def projects_at(connection: Connection, address: str) -> list[Project]:
    """Return the projects whose cloud and external id, with a slash between them, are this address."""
    rows = connection.execute(
        f"select {_COLUMNS} from reporting.projects where cloud || '/' || external_id = %s".encode(), [address]
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


def update_project(connection: Connection, project: Project) -> None:
    """Write the name and the metadata of a project over those that it has."""
    connection.execute(
        "update reporting.projects set name = %s, metadata = %s::jsonb where id = %s",
        [project.name, write_json(project.metadata), project.id],
    )


def _project(row: Sequence[Any]) -> Project:
    id_, platform, cloud, external_id, name, metadata, created_at = row
    return Project(id_, platform, cloud, external_id, name, read_json(metadata), created_at)
