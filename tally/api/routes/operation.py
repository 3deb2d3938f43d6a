"""Health and metrics: for the orchestrator of containers and the scraper, without authentication."""

from collections.abc import Mapping

from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from tally.api.answers import JsonAnswer
from tally.api.dependencies import InProcess
from tally.api.health import OK

router = APIRouter()


@router.get("/healthz", operation_id="liveness")
def liveness(state: InProcess) -> Response:
    """Tell whether the process should be left alone."""
    return _verdict(state.health.liveness())


@router.get("/readyz", operation_id="readiness")
def readiness(state: InProcess) -> Response:
    """Tell whether requests can be served."""
    return _verdict(state.health.readiness())


@router.get("/metrics", operation_id="metrics")
def metrics(state: InProcess) -> Response:
    """Write the metrics."""
    return Response(state.metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _verdict(checks: Mapping[str, str]) -> Response:
    well = all(verdict == OK for verdict in checks.values())
    return JsonAnswer({"status": "ok" if well else "failing", "checks": checks}, 200 if well else 503)
