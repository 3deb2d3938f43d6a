"""The charges of a month as FOCUS datasets: written whole into a file, then sent as fast as the client takes it."""

import os
from collections.abc import Collection, Iterator
from typing import Annotated, BinaryIO, Literal

from fastapi import APIRouter, Query
from starlette.responses import StreamingResponse

from tally.api.dependencies import Alone, Caller, InProcess, Metering, check_project_filter
from tally.api.parameters import NameFilter, Period
from tally.domain.errors import InvalidInput
from tally.domain.period import BillingPeriod
from tally.domain.principal import Principal, ProjectKey
from tally.services.focus_export import Names, open_dataset

router = APIRouter()

_MEDIA_TYPES = {"csv": "text/csv", "parquet": "application/vnd.apache.parquet"}
_BLOCK = 256 * 1024


@router.get("/api/v1/focus", operation_id="getFocusDataset")
def focus_dataset(
    period: Period,
    caller: Caller,
    metering: Metering,
    state: InProcess,
    _alone: Alone,
    form: Annotated[Literal["csv", "parquet"], Query(alias="format")] = "csv",
    correction: Annotated[int, Query(ge=0, le=10_000)] = 0,
    cloud: NameFilter = None,
    project_id: NameFilter = None,
) -> StreamingResponse:
    """Send one dataset of a month: as it was closed, or what a correction has changed."""
    month = BillingPeriod.parse(period, state.settings.zone)
    billed = _billed(caller, cloud, project_id)
    name, file = open_dataset(metering, month, correction, form, Names.of(state.settings), billed)
    headers = {
        "Content-Length": str(os.fstat(file.fileno()).st_size),
        "Content-Disposition": f'attachment; filename="{name}"',
        "Cache-Control": "no-store",
    }
    return StreamingResponse(_blocks(file), media_type=_MEDIA_TYPES[form], headers=headers)


def _billed(caller: Principal, cloud: str | None, project_id: str | None) -> Collection[ProjectKey] | None:
    """Whose bills are asked for: one project's, or of all that the caller sees; None: everybody's."""
    if cloud is None and project_id is None:
        return caller.projects
    if cloud is None or project_id is None:
        raise InvalidInput("a billed project is named by cloud and project_id together")
    check_project_filter(caller, cloud, project_id)
    return [(cloud, project_id)]


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    with file:
        while block := file.read(_BLOCK):
            yield block
