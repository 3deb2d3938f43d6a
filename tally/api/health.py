"""Whether the process can serve requests, and since when it cannot (readiness and liveness of the seed)."""

import time
from collections.abc import Callable
from datetime import timedelta
from threading import Lock

import psycopg
from psycopg_pool import ConnectionPool, PoolTimeout

from tally.store.database import Connection

OK = "ok"


class Health:
    """The checks of one process. They are made when they are asked for."""

    def __init__(
        self,
        reporting: ConnectionPool[Connection],
        unhealthy_after: timedelta,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        self._reporting = reporting
        self._unhealthy_after = unhealthy_after.total_seconds()
        self._seconds = seconds
        self._lock = Lock()
        self._failing_since: float | None = None

    def readiness(self) -> dict[str, str]:
        """Return the verdict of each check: ok, or what is wrong."""
        checks = {"reporting database": self._database()}
        ready = all(verdict == OK for verdict in checks.values())
        with self._lock:
            if ready:
                self._failing_since = None
            elif self._failing_since is None:
                self._failing_since = self._seconds()
        return checks

    def liveness(self) -> dict[str, str]:
        """Return the same, and fail only what has been failing for too long."""
        checks = self.readiness()
        with self._lock:
            since = self._failing_since
        if since is None or self._seconds() - since < self._unhealthy_after:
            return {"process": OK}
        return checks

    def _database(self) -> str:
        try:
            with self._reporting.connection() as connection:
                connection.execute("select 1")
        except (psycopg.Error, PoolTimeout):
            return "does not answer"
        return OK
