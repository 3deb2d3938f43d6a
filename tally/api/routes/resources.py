"""Resources: the inventory, and the history and lifecycle of one. An id may hold slashes, as Harbor's do."""

from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from tally.api.answers import JsonAnswer, instant, stored
from tally.api.dependencies import Caller, Reporting, check_project_filter
from tally.api.paging import Paged
from tally.api.parameters import NameFilter, NameInPath
from tally.api.routes.event_queries import event_page
from tally.domain.lifecycle import Anomaly, Interval, Lifetime
from tally.domain.timeline import Projection
from tally.services.event_queries import get_lifecycle, list_events_of_resource
from tally.services.resource_queries import list_resources
from tally.store.reporting.queries import ResourceFilter, ResourceRow, ResourceStatus

router = APIRouter()

RESOURCE = "/api/v1/resources/{cloud}/{resource_type}/{resource_id:any}"


@router.get("/api/v1/resources", operation_id="listResources")
def resources(
    caller: Caller,
    reporting: Reporting,
    page: Paged,
    cloud: NameFilter = None,
    project_id: NameFilter = None,
    resource_type: NameFilter = None,
    resource_id: NameFilter = None,
    status: Annotated[ResourceStatus, Query()] = "all",
    state: NameFilter = None,
) -> JsonAnswer:
    """List resources by (cloud, resource_type, resource_id)."""
    check_project_filter(caller, cloud, project_id)
    rows = list_resources(
        reporting,
        ResourceFilter(cloud, project_id, resource_type, resource_id, status, state),
        visible=caller.projects,
        after=page.after(str, str, str),
        limit=page.fetch,
    )
    return page.answer(rows, lambda row: row.key, _resource)


@router.get(RESOURCE + "/events", operation_id="listResourceEvents")
def events(
    cloud: NameInPath,
    resource_type: NameInPath,
    resource_id: NameInPath,
    caller: Caller,
    reporting: Reporting,
    page: Paged,
) -> JsonAnswer:
    """List the events of a resource by (timestamp, event_id)."""
    rows = list_events_of_resource(
        reporting,
        (cloud, resource_type, resource_id),
        visible=caller.projects,
        after=page.after(datetime, str),
        limit=page.fetch,
    )
    return event_page(page, rows, lambda row: (row.timestamp, row.event_id))


@router.get(RESOURCE + "/lifecycle", operation_id="getLifecycle")
def lifecycle(
    cloud: NameInPath, resource_type: NameInPath, resource_id: NameInPath, caller: Caller, reporting: Reporting
) -> JsonAnswer:
    """Show the lives of a resource."""
    found = get_lifecycle(reporting, (cloud, resource_type, resource_id), visible=caller.projects)
    about = {"cloud": cloud, "platform": found.platform, "resource_type": resource_type, "resource_id": resource_id}
    current = found.lifecycle.current
    return JsonAnswer(
        about
        | {
            "current": None if current is None else about | _current(current, names_last=found.names_last),
            "lifetimes": [_lifetime(life) for life in found.lifecycle.lifetimes],
            "anomalies": [_anomaly(anomaly) for anomaly in found.lifecycle.anomalies],
        }
    )


def _resource(row: ResourceRow) -> dict[str, Any]:
    return row._asdict() | {
        "size": stored(row.size),
        "created_at": instant(row.created_at),
        "deleted_at": instant(row.deleted_at),
        "last_event_at": instant(row.last_event_at),
    }


def _current(projection: Projection, *, names_last: bool) -> dict[str, Any]:
    return {
        "project_id": projection.project_id,
        "state": projection.state,
        "size": projection.size,
        "created_at": instant(projection.created_at),
        "deleted_at": instant(projection.deleted_at),
        "last_event_id": projection.last_event_id if names_last else None,
        "last_event_type": projection.last_event_type if names_last else None,
        "last_event_at": instant(projection.last_event_at),
    }


def _lifetime(life: Lifetime) -> dict[str, Any]:
    return {
        "from": instant(life.opened_at),
        "to": instant(life.closed_at),
        "open_left": life.open_left,
        "intervals": [_interval(interval) for interval in life.intervals],
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "from": instant(interval.from_ts),
        "to": instant(interval.to_ts),
        "state": interval.state,
        "size": interval.size,
        "project_id": interval.project_id,
        "from_event_id": interval.caused_by.event_id,
        "from_event_type": interval.caused_by.event_type,
        "to_event_id": interval.ended_by and interval.ended_by.event_id,
        "to_event_type": interval.ended_by and interval.ended_by.event_type,
    }


def _anomaly(anomaly: Anomaly) -> dict[str, Any]:
    return {
        "kind": anomaly.kind,
        "event_id": anomaly.event.event_id,
        "event_type": anomaly.event.event_type,
        "timestamp": instant(anomaly.event.timestamp),
        "project_id": anomaly.event.project_id,
    }
