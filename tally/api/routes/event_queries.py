"""GET /api/v1/events: the history. Events are taken at events.py, those of one resource are read at resources.py."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant, stored
from tally.api.dependencies import Caller, Reporting, check_project_filter
from tally.api.paging import Key, Page, Paged
from tally.api.parameters import From, NameFilter, To
from tally.services.event_queries import list_events
from tally.store.reporting.queries import EventFilter, EventRow

router = APIRouter()


@router.get("/api/v1/events", operation_id="listEvents")
def events(
    caller: Caller,
    reporting: Reporting,
    page: Paged,
    cloud: NameFilter = None,
    project_id: NameFilter = None,
    resource_type: NameFilter = None,
    resource_id: NameFilter = None,
    event_type: NameFilter = None,
    since: From = None,
    until: To = None,
) -> JsonAnswer:
    """List events by (timestamp, cloud, event_id)."""
    check_project_filter(caller, cloud, project_id)
    rows = list_events(
        reporting,
        EventFilter(cloud, project_id, resource_type, resource_id, event_type, since, until),
        visible=caller.projects,
        after=page.after(datetime, str, str),
        limit=page.fetch,
    )
    return event_page(page, rows, lambda row: row.key)


def event_page(page: Page, rows: Sequence[EventRow], key: Callable[[EventRow], Key]) -> JsonAnswer:
    """Write a page of events, each as it was sent; where they are long, a shorter one."""
    return page.shortened(sum(row.payload is not None for row in rows)).answer(rows, key, _view)


def _view(row: EventRow) -> dict[str, Any]:
    assert row.payload is not None, "what is beyond the page is not shown"
    return {
        "event_id": row.event_id,
        "timestamp": instant(row.timestamp),
        "event_type": row.event_type,
        "platform": row.platform,
        "cloud": row.cloud,
        "resource_type": row.resource_type,
        "resource_id": row.resource_id,
        "project_id": row.project_id,
        "source": row.source,
        "payload": stored(row.payload),
    }
