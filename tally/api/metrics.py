"""The metrics of the API in Prometheus' text format; names and labels are listed in docs/reference/metrics.md.

Where processes serve together, `tally api` names a directory to prometheus_client: in its files their values add up,
and stay when one of them dies. A value is a write into a mapped file, so events are counted by batch, not one by one.

No label holds what a caller made up: operations are those of the contract, reasons a closed list, and of the clouds
that nothing was accepted from only the first few have a series of their own.
"""

import os
from collections import Counter as Count
from collections.abc import Sequence
from datetime import datetime
from threading import Lock
from typing import Literal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector

from tally.domain.event import Event
from tally.services.ingest import Outcome
from tally.services.reconcile import SyncReport
from tally.services.rejected import REASONS as KEPT_FOR

SEVERAL_PROCESSES = "PROMETHEUS_MULTIPROC_DIR"
REASONS = KEPT_FOR | {"forbidden"}
OTHER = "other"
STRANGE_CLOUDS = 100  # of one process, without an accepted event

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_LAG_SECONDS = (0.1, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 6 * 3600.0, 86_400.0, 7 * 86_400.0, 30 * 86_400.0)
_EVENTS = (1.0, 10.0, 50.0, 100.0, 500.0, 1000.0, 2000.0, 5000.0, 10_000.0)

_Series = tuple[str, str, str, str]  # platform, cloud, resource type, event type


class Metrics:
    """What one process counts."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.collectors: list[Counter | Gauge | Histogram] = []  # as the reference lists them
        self._lock = Lock()
        self._newest: dict[str, datetime] = {}  # of each cloud with an accepted event
        self._strange: set[str] = set()
        # These names are the seed's: a Counter would add _total to them.
        self._events = self._gauge(
            "event_count", "Events accepted", "sum", "platform", "cloud", "resource_type", "event_type"
        )
        self._reconciled = self._gauge(
            "sync_resources_reconciled", "Resources that reconciliation created, updated or deleted", "sum", "cloud"
        )
        self._sync_errors = self._gauge("sync_errors", "Listings not compared, and syncs that failed", "sum", "cloud")
        self._deduplicated = self._counter("events_deduplicated", "Events that were known already", "cloud")
        self._rejected = self._counter("events_rejected", "Events rejected", "cloud", "reason")
        self._last_event = self._gauge(
            "last_event_timestamp_seconds", "Timestamp of the newest event accepted", "max", "cloud"
        )
        self._lag = self._histogram(
            "ingest_lag_seconds",
            "Time from the timestamp of the newest event that a batch brought of a cloud until it was received",
            _LAG_SECONDS,
            "cloud",
        )
        self._batch = self._histogram("ingest_batch_events", "Events in one batch", _EVENTS)
        self._latency = self._histogram(
            "http_request_duration_seconds", "Time to answer a request", _SECONDS, "operation", "status"
        )

    def ingested(self, outcomes: Sequence[Outcome], now: datetime) -> None:
        """Count what became of the events of a batch that was received ``now``."""
        accepted: Count[_Series] = Count()
        deduplicated: Count[str] = Count()
        rejected: Count[tuple[str, str]] = Count()
        newest: dict[str, datetime] = {}
        for outcome in outcomes:
            event = outcome.event
            cloud = event.cloud if event else ""
            if outcome.status == "rejected":
                rejected[cloud, outcome.reason if outcome.reason in REASONS else OTHER] += 1
            elif outcome.status == "deduplicated" or event is None:
                deduplicated[cloud] += 1
            else:
                accepted[_series(event)] += 1
                newest[cloud] = max(newest.get(cloud, event.timestamp), event.timestamp)
        self._note_newest(newest, now)
        for series, number in accepted.items():
            self._events.labels(*series).inc(number)
        for cloud, number in deduplicated.items():
            self._deduplicated.labels(self._bounded(cloud)).inc(number)
        for (cloud, reason), number in rejected.items():
            self._rejected.labels(self._bounded(cloud), reason).inc(number)
        self._batch.observe(len(outcomes))

    def synced(self, report: SyncReport) -> None:
        """Count what a sync did, and the listings that it could not compare."""
        written = sum(report.total(number) for number in ("created", "updated", "deleted"))
        self._reconciled.labels(report.cloud).inc(written)
        self.sync_failed(report.cloud, sum(listing.status != "compared" for listing in report.listings))

    def sync_failed(self, cloud: str, errors: int = 1) -> None:
        """Count what went wrong with the syncs of a cloud that is registered."""
        self._sync_errors.labels(cloud).inc(errors)

    def answered(self, operation: str, status: int, seconds: float) -> None:
        """Count a request by the id of its operation."""
        self._latency.labels(operation, str(status)).observe(seconds)

    def text(self) -> bytes:
        """Write all metrics, those of the other processes included."""
        if SEVERAL_PROCESSES not in os.environ:
            return generate_latest(self._registry)
        everything = CollectorRegistry()
        MultiProcessCollector(everything)  # type: ignore[no-untyped-call]
        return generate_latest(everything)

    def _note_newest(self, newest: dict[str, datetime], now: datetime) -> None:
        for cloud, moment in newest.items():
            self._lag.labels(cloud).observe(max(0.0, (now - moment).total_seconds()))
            with self._lock:
                if cloud not in self._newest or self._newest[cloud] < moment:
                    self._newest[cloud] = moment
                    self._last_event.labels(cloud).set(moment.timestamp())

    def _bounded(self, cloud: str) -> str:
        """Return the label of a cloud: its name, unless too many were made up."""
        with self._lock:
            if not cloud or cloud in self._newest or cloud in self._strange:
                return cloud
            if len(self._strange) >= STRANGE_CLOUDS:
                return OTHER
            self._strange.add(cloud)
        return cloud

    def _gauge(self, name: str, text: str, mode: Literal["sum", "max"], *labels: str) -> Gauge:
        gauge = Gauge(name, text, labels, registry=self._registry, multiprocess_mode=mode)
        self.collectors.append(gauge)
        return gauge

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        counter = Counter(name, text, labels, registry=self._registry)
        self.collectors.append(counter)
        return counter

    def _histogram(self, name: str, text: str, buckets: Sequence[float], *labels: str) -> Histogram:
        histogram = Histogram(name, text, labels, registry=self._registry, buckets=buckets)
        self.collectors.append(histogram)
        return histogram


def _series(event: Event) -> _Series:
    return event.platform, event.cloud, event.resource_type, event.event_type
