"""The registry of resource types (rule 6)."""

from typing import Annotated, Any

from fastapi import APIRouter, Query

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, JsonBody, Reporting
from tally.api.paging import Paged
from tally.api.parameters import NameFilter, NameInPath
from tally.services.registry import define_type, list_types, versions_of_type
from tally.store.reporting.registry import DefinitionRow

router = APIRouter()

RESOURCE_TYPE = "/api/v1/resource-types/{platform}/{resource_type}"
AcceptInvalidation = Annotated[str | None, Query(min_length=1, max_length=500)]


@router.get("/api/v1/resource-types", operation_id="listResourceTypes")
def resource_types(reporting: Reporting, page: Paged, platform: NameFilter = None) -> JsonAnswer:
    """List resource types by platform and name."""
    after = page.after(str, str)
    rows = list_types(reporting, platform=platform, after=after and (after[0], after[1]), limit=page.fetch)
    return page.answer(rows, lambda row: (row.platform, row.resource_type), _view)


@router.get(RESOURCE_TYPE, operation_id="getResourceType")
def resource_type(platform: NameInPath, resource_type: NameInPath, reporting: Reporting) -> JsonAnswer:
    """Show a resource type and which versions it has had."""
    rows = versions_of_type(reporting, platform, resource_type)
    return JsonAnswer(_view(rows[-1]) | {"versions": [row.version for row in reversed(rows)]})


@router.put(RESOURCE_TYPE, operation_id="putResourceType")
def put(
    platform: NameInPath,
    resource_type: NameInPath,
    body: JsonBody,
    caller: Caller,
    reporting: Reporting,
    accept_invalidation: AcceptInvalidation = None,
) -> JsonAnswer:
    """Register a resource type, or a new version of it."""
    defined = define_type(
        reporting, platform, resource_type, body, caller.name, accept_invalidation=accept_invalidation or ""
    )
    content = {
        "platform": platform,
        "resource_type": resource_type,
        "version": defined.version,
        "changed": defined.changed,
        "invalidates": list(defined.invalidates),
        "rebuilt": defined.rebuilt,
    }
    return JsonAnswer(content, 201 if defined.created else 200)


def _view(row: DefinitionRow) -> dict[str, Any]:
    return {
        "platform": row.platform,
        "resource_type": row.resource_type,
        "version": row.version,
        "origin": row.origin,
        "created_at": instant(row.created_at),
        "definition": row.definition,
    }
