"""Whether a process can serve, and since when it cannot: what /readyz and /healthz answer.

Three checks, made every few seconds in a thread, so that asking costs nothing however often it is done:

- reporting database: it answers.
- event ingestion: the server takes writes, and no batch has failed in the last minute without one succeeding since.
- reconciliation: some cloud has an adapter, and the last sync of at least one such cloud did not fail.

A process is ready if the database answers and ingestion or reconciliation is available: events that one of them misses
are found by the other. It is alive until it has not been ready for TALLY_UNHEALTHY_SECONDS.
"""

import logging
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from threading import Event, Lock, Thread
from typing import NamedTuple

import psycopg

from tally.domain.errors import Unavailable
from tally.services.availability import ingestion_fault, reconciliation_fault
from tally.store.database import Connection, connected

OK = "ok"
DATABASE, INGESTION, RECONCILIATION = "reporting database", "event ingestion", "reconciliation"
CHECKED_EVERY = 2  # seconds
STUCK_AFTER = 60  # seconds without a result; a connection that hangs is given up long before
FAILED_BATCH_COUNTS = 60  # seconds; without an end, a process that nobody sends to would never recover
_PATIENCE = {"connect_timeout": 5, "tcp_user_timeout": 5000}

_log = logging.getLogger(__name__)


class Verdict(NamedTuple):
    """Whether all is well enough, and what each check says: ok, or what is wrong."""

    well: bool
    checks: Mapping[str, str]


class Health:
    """The health of one process."""

    def __init__(
        self,
        reporting_url: str,
        platforms: Collection[str],
        unhealthy_after: timedelta,
        seconds: Callable[[], float] = time.monotonic,
    ) -> None:
        """Judge by the reporting database; ``platforms`` are those with a reconciliation adapter."""
        self._reporting_url = reporting_url
        self._platforms = platforms
        self._unhealthy_after = unhealthy_after.total_seconds()
        self._seconds = seconds
        self._lock = Lock()
        self._checked_at = seconds()
        self._ready = Verdict(True, {})
        self._unready_since: float | None = None
        self._batch_failed_at: float | None = None

    def readiness(self) -> Verdict:
        """Say whether requests can be served, as of the last check."""
        with self._lock:
            age = self._seconds() - self._checked_at
            ready = self._ready
        if age > STUCK_AFTER:
            return Verdict(False, {"health": f"the last check was {age:.0f} s ago"})
        return ready

    def liveness(self) -> Verdict:
        """Say whether the process should be left alone."""
        ready = self.readiness()
        with self._lock:
            since = self._checked_at if self._unready_since is None else self._unready_since
        if ready.well or self._seconds() - since <= self._unhealthy_after:
            return Verdict(True, {"process": OK})
        return ready

    def batch_ended(self, *, well: bool) -> None:
        """Note that a batch of events was taken, or that it failed because the database did."""
        with self._lock:
            self._batch_failed_at = None if well else self._seconds()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Check now, and every few seconds during a block."""
        self.check()
        end = Event()
        thread = Thread(target=self._watch, args=(end,), name="health", daemon=True)
        thread.start()
        try:
            yield
        finally:
            end.set()

    def _watch(self, end: Event) -> None:
        while not end.wait(CHECKED_EVERY):
            self.check()

    def check(self) -> None:
        """Make all checks."""
        checks = self._checks()
        ready = checks[DATABASE] == OK and OK in (checks[INGESTION], checks[RECONCILIATION])
        with self._lock:
            changed = checks != self._ready.checks
            self._ready = Verdict(ready, checks)
            self._checked_at = self._seconds()
            if ready:
                self._unready_since = None
            elif self._unready_since is None:
                self._unready_since = self._checked_at
        if changed and not ready:
            _log.error("not ready: %s", "; ".join(f"{name} {verdict}" for name, verdict in checks.items()))

    def _checks(self) -> dict[str, str]:
        try:
            with connected(self._reporting_url, **_PATIENCE) as reporting:
                reconciliation = reconciliation_fault(reporting, self._platforms) or OK
                return {DATABASE: OK, INGESTION: self._ingestion(reporting), RECONCILIATION: reconciliation}
        except (Unavailable, psycopg.Error):
            unknown = "unknown without the reporting database"
            return {DATABASE: "does not answer", INGESTION: unknown, RECONCILIATION: unknown}

    def _ingestion(self, reporting: Connection) -> str:
        with self._lock:
            failed_at = self._batch_failed_at
        if failed_at is not None and self._seconds() - failed_at <= FAILED_BATCH_COUNTS:
            return "the last batch failed"
        return ingestion_fault(reporting) or OK
