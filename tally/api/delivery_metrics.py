"""What targets of documents lack, as metrics: asked of the database when somebody asks, since no process counts it."""

from collections.abc import Iterator

import psycopg
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import GaugeMetricFamily
from prometheus_client.registry import Collector
from psycopg_pool import ConnectionPool, PoolTimeout

from tally.services.deliver import backlog
from tally.store.database import Connection

_PATIENCE = 2  # seconds for a connection: without one the other metrics are told all the same


class DeliveryMetrics(Collector):
    """Gauges of the outbox; nothing while the database does not answer."""

    def __init__(self, metering: ConnectionPool[Connection]) -> None:
        self._metering = metering

    @staticmethod
    def families() -> tuple[GaugeMetricFamily, GaugeMetricFamily]:
        """The gauges, without a value: how many documents wait, and since when."""
        return (
            GaugeMetricFamily(
                "deliveries_waiting", "Documents that a target does not have", labels=("target", "status")
            ),
            GaugeMetricFamily(
                "deliveries_oldest_timestamp_seconds",
                "When the oldest document that a target does not have was issued, or asked for again",
                labels=("target",),
            ),
        )

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Ask the outbox."""
        waiting, oldest = self.families()
        try:
            with self._metering.connection(timeout=_PATIENCE) as metering:
                targets = backlog(metering)
        except (psycopg.Error, PoolTimeout):
            return
        for target in targets:
            waiting.add_metric((target.target, "pending"), target.pending)
            waiting.add_metric((target.target, "failed"), target.failed)
            if target.oldest is not None:
                oldest.add_metric((target.target,), target.oldest.timestamp())
        yield from (waiting, oldest)

    def text(self) -> bytes:
        """Write them in Prometheus' text format."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(self)
        return generate_latest(registry)
