"""Load what has arrived into the metering database (rule 18): one snapshot, one transaction, one load id."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from tally.store.database import Connection
from tally.store.metering import load as store


@dataclass(frozen=True, slots=True)
class Load:
    """What one load brought: a run reads what has a load id up to its own."""

    load_id: int
    events: int
    registry_version: int
    started_at: datetime


def load(reporting: Connection, metering: Connection, clock: Callable[[], datetime]) -> Load:
    """Copy all pending events and the small tables beside them; the caller holds the metering lock.

    An event that commits while this reads is in this load or in the next: its batch leaves the outbox only after
    the metering database has committed it, and whatever is copied twice is dropped by its key.
    """
    with _snapshot(reporting):
        started_at = clock()
        batches = store.pending_batches(reporting)
        version = store.registry_version(reporting)
        with metering.transaction():
            load_id = store.next_load_id(metering)
            store.begin_load(metering, load_id, started_at, version)
            events = store.copy_all(reporting, metering, load_id)
    store.forget_pending(reporting, batches)
    if events:
        store.refresh_statistics(metering)
    return Load(load_id, events, version, started_at)


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield
