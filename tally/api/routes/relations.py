"""Relations between projects, and where they lead (rule 28)."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, InProcess, JsonBody, Reporting
from tally.api.paging import Paged
from tally.api.parameters import IdInPath, InstantFilter
from tally.api.routes.projects import PROJECT, ProjectId, project_view
from tally.domain.errors import InvalidInput
from tally.domain.graph import Relation
from tally.domain.instants import parse_instant
from tally.services.late import finalized_periods
from tally.services.projects import get_project
from tally.services.related import MAX_DEPTH, related
from tally.services.relations import (
    Change,
    Direction,
    RelationPatch,
    Written,
    close_relation,
    get_relation,
    list_relations,
    patch_relation,
    relate,
)

router = APIRouter()

_RELATIONS = PROJECT + "/relations"
_RELATION = _RELATIONS + "/{relation_id}"

TypeFilter = Annotated[
    Literal["infrastructure_tenant", "managed_by", "member_of", "same_owner", "image_source"] | None, Query()
]
Depth = Annotated[int, Query(ge=1, le=MAX_DEPTH)]
Reason = Annotated[str | None, Query(min_length=1, max_length=500)]


def changing(state: InProcess, caller: Caller) -> Change:
    """What a change has to know. What is finalized is read anew: by an old list, a reason would not be asked for."""
    with state.metering.connection() as metering:
        finalized = finalized_periods(metering)
    return Change(caller.name, state.clock(), finalized, state.settings.zone)


Changing = Annotated[Change, Depends(changing)]


@router.get(_RELATIONS, operation_id="listRelations")
def relations(
    project_id: ProjectId,
    caller: Caller,
    reporting: Reporting,
    page: Paged,
    direction: Literal["outgoing", "incoming", "both"] = "both",
    relation_type: TypeFilter = None,
) -> JsonAnswer:
    """List the relations of a project."""
    rows = list_relations(
        reporting,
        project=get_project(reporting, project_id, caller.projects).id,
        direction=Direction(direction),
        relation_type=relation_type,
        visible=caller.projects,
        after=page.after(datetime, UUID),
        limit=page.fetch,
    )
    return page.answer(rows, lambda row: (row.valid_from, row.id), relation_view)


@router.post(_RELATIONS, operation_id="createRelation")
def create(project_id: ProjectId, body: JsonBody, change: Changing, reporting: Reporting) -> JsonAnswer:
    """Relate a project to another one."""
    written = relate(
        reporting,
        project_id,
        _id("target_id", body["target_id"]),
        body["relation_type"],
        _instant("valid_from", body.get("valid_from")),
        _instant("valid_to", body.get("valid_to")),
        body.get("metadata"),
        replace(change, reason=body.get("reason")),
    )
    return _answer(written, 201 if written.changed else 200)


@router.patch(_RELATION, operation_id="patchRelation")
def patch(
    project_id: ProjectId, relation_id: IdInPath, body: JsonBody, change: Changing, reporting: Reporting
) -> JsonAnswer:
    """Change a relation."""
    get_relation(reporting, relation_id, project_id)
    return _answer(patch_relation(reporting, relation_id, _patch(body), replace(change, reason=body.get("reason"))))


@router.delete(_RELATION, operation_id="closeRelation")
def close(
    project_id: ProjectId,
    relation_id: IdInPath,
    change: Changing,
    reporting: Reporting,
    valid_to: InstantFilter = None,
    reason: Reason = None,
) -> JsonAnswer:
    """Close a relation."""
    get_relation(reporting, relation_id, project_id)
    return _answer(close_relation(reporting, relation_id, valid_to, replace(change, reason=reason)))


@router.get(PROJECT + "/related", operation_id="listRelated")
def list_related(
    project_id: ProjectId,
    state: InProcess,
    caller: Caller,
    reporting: Reporting,
    depth: Depth = 1,
    relation_type: TypeFilter = None,
    at: InstantFilter = None,
) -> JsonAnswer:
    """List the projects to which relations lead."""
    rows = related(
        reporting,
        project_id,
        at=state.clock() if at is None else at,
        depth=depth,
        relation_type=relation_type,
        visible=caller.projects,
    )
    items = [
        {
            "project": project_view(row.project),
            "depth": row.depth,
            "path": [relation_view(step) for step in row.path],
        }
        for row in rows
    ]
    return JsonAnswer({"items": items})


def _answer(written: Written, status: int = 200) -> JsonAnswer:
    late = {"late_for": list(written.late_for)} if written.late_for else {}
    return JsonAnswer(relation_view(written.relation) | late, status)


def relation_view(relation: Relation) -> dict[str, Any]:
    """Show one version of a relation."""
    return {
        "id": str(relation.id),
        "version": relation.version,
        "source_id": str(relation.source),
        "target_id": str(relation.target),
        "relation_type": relation.type,
        "metadata": relation.metadata,
        "valid_from": instant(relation.valid_from),
        "valid_to": instant(relation.valid_to),
    }


def _patch(body: Mapping[str, Any]) -> RelationPatch:
    patch: RelationPatch = {}
    if "metadata" in body:
        patch["metadata"] = body["metadata"]
    start = _instant("valid_from", body.get("valid_from"))
    if start is not None:
        patch["valid_from"] = start
    if "valid_to" in body:
        patch["valid_to"] = _instant("valid_to", body["valid_to"])
    return patch


def _instant(what: str, text: str | None) -> datetime | None:
    try:
        return None if text is None else parse_instant(text)
    except InvalidInput as error:
        raise InvalidInput(f"{what}: {error}") from None


def _id(what: str, text: str) -> UUID:
    try:
        return UUID(text)
    except ValueError:
        raise InvalidInput(f"{what} {text[:60]!r} is no id of a project, such as its answer holds") from None
