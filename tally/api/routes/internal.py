"""POST /internal/sync/{cloud}: reconciliation, called by a job of the cluster for one cloud at a time."""

from typing import Any

from fastapi import APIRouter

from tally.api.answers import JsonAnswer, instant
from tally.api.dependencies import Caller, InProcess, Reporting
from tally.api.parameters import NameInPath
from tally.api.problems import forbidden
from tally.domain.errors import Unavailable
from tally.domain.principal import Principal, Role
from tally.services.adapters import adapter_of
from tally.services.reconcile import SyncReport, sync

router = APIRouter()

_TOTALS = ("listed", "unknown", "created", "updated", "deleted", "skipped", "rejected", "withheld")


@router.post("/internal/sync/{cloud:any}", operation_id="syncCloud")
def sync_cloud(
    cloud: NameInPath, state: InProcess, caller: Caller, reporting: Reporting, *, accept_deletions: bool = False
) -> JsonAnswer:
    """Reconcile a cloud, and say what was found and written."""
    _check_scope(caller, cloud, accept_deletions=accept_deletions)
    adapter = adapter_of(reporting, cloud, state.adapters)
    try:
        report = sync(
            reporting,
            cloud,
            adapter,
            clock=state.clock,
            clock_skew=state.settings.clock_skew,
            max_deleted_percent=state.settings.sync_max_deleted_percent,
            actor=caller.name,
            accept_deletions=accept_deletions,
            told=lambda outcomes: state.metrics.ingested(outcomes, state.clock()),
        )
    except Unavailable:
        state.metrics.sync_failed(cloud)
        raise
    state.metrics.synced(report)
    return JsonAnswer(_view(report))


def _check_scope(caller: Principal, cloud: str, *, accept_deletions: bool) -> None:
    """Bind a credential to its cloud, and the guard to a person: a job that always accepts would be none.

    Raises:
        Problem: 403.
    """
    if caller.scope is not None and caller.scope.cloud != cloud:
        raise forbidden(f"this credential is for {caller.scope.cloud}, not for {cloud}")
    if accept_deletions and caller.role is not Role.OPERATOR:
        raise forbidden(f"accept_deletions is not for the role {caller.role}; ask an operator")


def _view(report: SyncReport) -> dict[str, Any]:
    types = [
        {name: getattr(listing, name) for name in ("resource_type", "status", *_TOTALS)}
        | {"started_at": instant(listing.started_at)}
        for listing in report.listings
    ]
    return {
        "cloud": report.cloud,
        "status": report.status,
        "started_at": instant(report.started_at),
        **{name: report.total(name) for name in _TOTALS},
        "resource_types": types,
        "errors": list(report.errors),
    }
