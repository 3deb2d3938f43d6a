"""Projects: who exists, under which address, and what is known of them (rule 28).

A project is addressed as ``cloud/external_id``, or by its registry id. How projects relate is relations.py.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any, TypedDict
from uuid import UUID

from tally.domain.errors import NotFound, Refused
from tally.domain.event import canonical_json
from tally.domain.json_merge import merge_patch
from tally.domain.principal import ProjectKey
from tally.domain.project import Project, check_metadata, check_name
from tally.services.clouds import claim_cloud, only_cloud
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import projects as store


class ProjectPatch(TypedDict, total=False):
    """What to change of a project, as a JSON Merge Patch (RFC 7396): null clears, what is not named stays."""

    name: str | None
    metadata: Mapping[str, Any] | None


def create_project(
    connection: Connection,
    platform: str,
    cloud: str | None,
    external_id: str,
    name: str | None,
    metadata: Mapping[str, Any] | None,
    actor: str,
) -> Project:
    """Register a project, and its cloud if that is new; the same project again changes nothing.

    Without a cloud it belongs to the one that its platform has.

    Raises:
        InvalidInput: if a name is empty or too long, the platform is not in the registry of resource types, it does not
            have exactly one cloud and none is named, or metadata hold what cannot be stored.
        Refused: if the cloud belongs to another platform, or the project is registered with other content.
    """
    return register_project(connection, platform, cloud, external_id, name, metadata, actor)[0]


def register_project(
    connection: Connection,
    platform: str,
    cloud: str | None,
    external_id: str,
    name: str | None,
    metadata: Mapping[str, Any] | None,
    actor: str,
) -> tuple[Project, bool]:
    """Do what create_project does, and say besides whether the project is new."""
    texts = {"platform": platform, "cloud": cloud, "external_id": external_id, "name": name}
    for what, text in texts.items():
        if text is not None:
            check_name(what, text)
    metadata = check_metadata(metadata)
    with connection.transaction():
        store.lock(connection)
        cloud = only_cloud(connection, platform) if cloud is None else cloud
        claim_cloud(connection, platform, cloud, actor)
        added = store.add_project(connection, platform, cloud, external_id, name, metadata)
        project = find_project(connection, f"{cloud}/{external_id}")
        if added is not None:
            detail = {"id": str(added), "platform": platform, "name": name, "metadata": metadata}
            audit.record(connection, actor, "project.create", project.address, detail)
        elif _content(project) != _content(replace(project, name=name, metadata=metadata)):
            other = "it is registered with another name or other metadata"
            change = f"PATCH /api/v1/projects/{project.id} of the API changes them"
            raise Refused(f"project {project.address}", [f"{other}; {change}"])
    return project, added is not None


def patch_project(connection: Connection, project_id: UUID, patch: ProjectPatch, actor: str) -> Project:
    """Change the name or the metadata of a project; what is said already changes nothing.

    Raises:
        InvalidInput: if the name is empty or too long, or metadata hold what cannot be stored.
        NotFound: if there is no such project.
    """
    name = patch.get("name")
    if name is not None:
        check_name("name", name)
    with connection.transaction():
        store.lock(connection)
        old = get_project(connection, project_id)
        new = replace(old, name=name) if "name" in patch else old
        if "metadata" in patch:
            new = replace(new, metadata=patched_metadata(old.metadata, patch["metadata"]))
        if _content(new) == _content(old):
            return old
        store.update_project(connection, new)
        audit.record(connection, actor, "project.update", old.address, {"old": _told(old), "new": _told(new)})
    return new


def patched_metadata(metadata: Mapping[str, Any], patch: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata with a JSON Merge Patch applied; null takes all away.

    Raises:
        InvalidInput: if the patch is no object, or holds what cannot be stored.
    """
    return {} if patch is None else check_metadata(merge_patch(metadata, check_metadata(patch)))


def list_projects(
    connection: Connection,
    *,
    platform: str | None = None,
    cloud: str | None = None,
    external_id: str | None = None,
    visible: Collection[ProjectKey] | None = None,
    after: ProjectKey | None = None,
    limit: int | None = None,
) -> list[Project]:
    """Return projects in the order of (cloud, external_id), those after ``after``, at most ``limit``.

    ``visible``: only these; None is all.
    """
    return store.select_projects(
        connection,
        platform=platform,
        cloud=cloud,
        external_id=external_id,
        visible=visible,
        after=after,
        limit=limit,
    )


def get_project(
    connection: Connection, project_id: UUID, visible: Collection[ProjectKey] | None = None
) -> Project:
    """Return the project with a registry id.

    Raises:
        NotFound: if there is none among the visible ones.
    """
    for project in store.projects_of(connection, [project_id]):
        if visible is None or (project.cloud, project.external_id) in visible:
            return project
    raise NotFound(f"project {project_id} does not exist; list the projects to see their ids")


def find_project(connection: Connection, address: str) -> Project:
    """Return the project at ``cloud/external_id``.

    Raises:
        NotFound: if there is none.
    """
    found = store.projects_at(connection, address)
    if not found:
        raise NotFound(f"project {address!r} is not registered; write cloud/external_id, or create it first")
    return found[0]


def _content(project: Project) -> tuple[object, ...]:
    return (project.platform, project.name, canonical_json(project.metadata))


def _told(project: Project) -> dict[str, Any]:
    return {"name": project.name, "metadata": project.metadata}
