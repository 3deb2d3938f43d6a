"""The finalized months, as the answers to events name them; remembered for a while, since few requests concern them."""

import time
from datetime import timedelta
from threading import Lock

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from tally.domain.closed_periods import FinalizedPeriod
from tally.domain.event import Event
from tally.services.late import finalized_periods
from tally.store.database import Connection

REMEMBERED = timedelta(seconds=30)
_PATIENCE = 1  # seconds; what is named is worth no more to a sender


class FinalizedPeriods:
    """The finalized periods of the metering database. Without it, events are taken all the same: nothing is named."""

    def __init__(self, metering: ConnectionPool[Connection]) -> None:
        self._metering = metering
        self._lock = Lock()
        self._read_at = -REMEMBERED.total_seconds()
        self._periods: list[FinalizedPeriod] = []

    def all(self) -> list[FinalizedPeriod]:
        """Return them, as they were at most half a minute ago; while one request reads them, others do not wait."""
        if time.monotonic() - self._read_at > REMEMBERED.total_seconds() and self._lock.acquire(blocking=False):
            try:
                self._periods = self._read()
                self._read_at = time.monotonic()
            finally:
                self._lock.release()
        return self._periods

    def late_for(self, event: Event) -> dict[str, list[str]]:
        """Return ``late_for`` for the result of an accepted event: the periods that had not ended by its instant."""
        periods = [period.period for period in self.all() if event.timestamp < period.end]
        return {"late_for": periods} if periods else {}

    def _read(self) -> list[FinalizedPeriod]:
        try:
            with self._metering.connection(timeout=_PATIENCE) as connection:
                return finalized_periods(connection)
        except (psycopg.Error, PoolTimeout):
            return self._periods
