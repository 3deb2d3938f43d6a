"""Health and metrics: for the orchestrator of containers and the scraper, without authentication."""

from anyio import to_thread
from fastapi import APIRouter
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.responses import Response

from tally.api.answers import JsonAnswer
from tally.api.delivery_metrics import DeliveryMetrics
from tally.api.dependencies import InProcess
from tally.api.health import Verdict

router = APIRouter()


@router.get("/healthz", operation_id="liveness")
async def liveness(state: InProcess) -> Response:
    """Tell whether the process should be left alone."""
    return _verdict(state.health.liveness())


@router.get("/readyz", operation_id="readiness")
async def readiness(state: InProcess) -> Response:
    """Tell whether requests can be served."""
    return _verdict(state.health.readiness())


@router.get("/metrics", operation_id="metrics")
async def metrics(state: InProcess) -> Response:
    """Write the metrics; one at a time, or asking for them would take the threads of all others."""
    deliveries = DeliveryMetrics(state.metering)
    text = await to_thread.run_sync(lambda: state.metrics.text() + deliveries.text(), limiter=state.load.one_thread)
    return Response(text, media_type=CONTENT_TYPE_LATEST)


def _verdict(verdict: Verdict) -> Response:
    content = {"status": "ok" if verdict.well else "failing", "checks": verdict.checks}
    return JsonAnswer(content, 200 if verdict.well else 503)
