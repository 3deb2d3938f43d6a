"""Projects. Their relations are in relations.py."""

from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import APIRouter, Path

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, JsonBody, Reporting, check_project_filter
from tally.api.paging import Paged
from tally.api.parameters import NameFilter
from tally.domain.project import Project
from tally.services.projects import ProjectPatch, get_project, list_projects, patch_project, register_project

router = APIRouter()

PROJECT = "/api/v1/projects/{id}"
ProjectId = Annotated[UUID, Path(alias="id")]


@router.get("/api/v1/projects", operation_id="listProjects")
def projects(
    caller: Caller,
    reporting: Reporting,
    page: Paged,
    platform: NameFilter = None,
    cloud: NameFilter = None,
    external_id: NameFilter = None,
) -> JsonAnswer:
    """List projects by cloud and id."""
    check_project_filter(caller, cloud, external_id)
    rows = list_projects(
        reporting,
        platform=platform,
        cloud=cloud,
        external_id=external_id,
        visible=caller.projects,
        after=page.after(str, str),
        limit=page.fetch,
    )
    return page.answer(rows, lambda row: (row.cloud, row.external_id), project_view)


@router.post("/api/v1/projects", operation_id="createProject")
def create(body: JsonBody, caller: Caller, reporting: Reporting) -> JsonAnswer:
    """Register a project."""
    project, created = register_project(
        reporting,
        body["platform"],
        body.get("cloud"),
        body["external_id"],
        body.get("name"),
        body.get("metadata"),
        caller.name,
    )
    return JsonAnswer(project_view(project), 201 if created else 200)


@router.get(PROJECT, operation_id="getProject")
def project(project_id: ProjectId, caller: Caller, reporting: Reporting) -> JsonAnswer:
    """Show a project."""
    return JsonAnswer(project_view(get_project(reporting, project_id, caller.projects)))


@router.patch(PROJECT, operation_id="patchProject")
def patch(project_id: ProjectId, body: JsonBody, caller: Caller, reporting: Reporting) -> JsonAnswer:
    """Change a project."""
    return JsonAnswer(project_view(patch_project(reporting, project_id, cast("ProjectPatch", body), caller.name)))


def project_view(project: Project) -> dict[str, Any]:
    """Show a project as the contract says."""
    return {
        "id": str(project.id),
        "platform": project.platform,
        "cloud": project.cloud,
        "external_id": project.external_id,
        "name": project.name,
        "metadata": project.metadata,
        "created_at": instant(project.created_at),
    }
