"""Clouds: the installations of platforms (rule 1)."""

from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, JsonBody, Reporting
from tally.api.paging import Paged
from tally.api.parameters import NameFilter, NameInPath
from tally.services.clouds import list_clouds, register_cloud
from tally.store.reporting.clouds import CloudRow

router = APIRouter()


@router.get("/api/v1/clouds", operation_id="listClouds")
def clouds(reporting: Reporting, page: Paged, platform: NameFilter = None) -> JsonAnswer:
    """List clouds by name."""
    after = page.after(str)
    rows = list_clouds(reporting, platform=platform, after=after[0] if after else None, limit=page.fetch)
    return page.answer(rows, lambda row: (row.cloud,), _view)


# A slash in the name comes as far as the service, which says that it may not be.
@router.put("/api/v1/clouds/{cloud:any}", operation_id="putCloud")
def put(cloud: NameInPath, body: JsonBody, caller: Caller, reporting: Reporting) -> JsonAnswer:
    """Register a cloud."""
    row, created = register_cloud(reporting, body["platform"], cloud, caller.name)
    return JsonAnswer(_view(row), 201 if created else 200)


def _view(row: CloudRow) -> dict[str, Any]:
    return {"cloud": row.cloud, "platform": row.platform, "created_at": instant(row.created_at)}
