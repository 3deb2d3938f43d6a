"""The metrics of the API in Prometheus' text format; names and labels are listed in docs/reference/metrics.md.

Where several processes serve, `tally api` names a directory to prometheus_client, in which their values add up.
"""

import os
from collections.abc import Sequence
from datetime import datetime

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tally.services.ingest import Outcome
from tally.services.reconcile import SyncReport

SEVERAL_PROCESSES = "PROMETHEUS_MULTIPROC_DIR"


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        # The name is the seed's: a Counter would add _total to it.
        self._events = Gauge(
            "event_count",
            "Events accepted",
            ["platform", "cloud", "resource_type", "event_type"],
            registry=registry,
            multiprocess_mode="sum",
        )
        self._deduplicated = Counter("events_deduplicated", "Events known already", ["cloud"], registry=registry)
        self._rejected = Counter("events_rejected", "Events rejected", ["cloud", "reason"], registry=registry)
        self._reconciled = Gauge(
            "sync_resources_reconciled",
            "Resources that reconciliation created, updated or deleted",
            ["cloud"],
            registry=registry,
            multiprocess_mode="sum",
        )
        self._sync_errors = Gauge(
            "sync_errors",
            "Listings that were not compared, and syncs that failed",
            ["cloud"],
            registry=registry,
            multiprocess_mode="sum",
        )
        self._latency = Histogram(
            "http_request_duration_seconds",
            "Time to answer a request",
            ["operation", "status"],
            registry=registry,
        )

    def ingested(self, outcomes: Sequence[Outcome], now: datetime) -> None:  # noqa: ARG002
        """Count what became of events."""
        for outcome in outcomes:
            event = outcome.event
            if outcome.status == "accepted" and event is not None:
                self._events.labels(event.platform, event.cloud, event.resource_type, event.event_type).inc()
            elif outcome.status == "deduplicated":
                self._deduplicated.labels(event.cloud if event else "").inc()
            else:
                self._rejected.labels(event.cloud if event else "", outcome.reason).inc()

    def synced(self, report: SyncReport) -> None:
        """Count what a sync did, and the listings that it could not compare."""
        written = sum(report.total(number) for number in ("created", "updated", "deleted"))
        self._reconciled.labels(report.cloud).inc(written)
        self.sync_failed(report.cloud, sum(listing.status != "compared" for listing in report.listings))

    def sync_failed(self, cloud: str, errors: int = 1) -> None:
        """Count what went wrong with the syncs of a cloud that is registered."""
        self._sync_errors.labels(cloud).inc(errors)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a request."""
        self._latency.labels(operation, str(status)).observe(seconds)

    def text(self) -> bytes:
        """Write all metrics, those of the other processes included."""
        if SEVERAL_PROCESSES not in os.environ:
            return generate_latest(self._registry)
        everything = CollectorRegistry()
        MultiProcessCollector(everything)  # type: ignore[no-untyped-call]
        return generate_latest(everything)
