"""Load what has arrived into the metering database (rule 18): one snapshot, one transaction, one load id."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from tally.domain.errors import Refused
from tally.domain.instants import format_instant
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

    Raises:
        Refused: if the metering database is not the one that took the events before this load, or no longer has them.
    """
    with _snapshot(reporting):
        _refuse_another(reporting, metering)
        started_at = clock()
        batches = store.pending_batches(reporting)
        version = store.registry_version(reporting)
        with metering.transaction():
            load_id = store.next_load_id(metering)
            store.begin_load(metering, load_id, started_at, version)
            events = store.copy_all(reporting, metering, load_id)
    if batches:
        store.forget_pending(reporting, batches, load_id, started_at)
    if events:
        store.refresh_statistics(metering)
    return Load(load_id, events, version, started_at)


def bring_all_again(reporting: Connection) -> int:
    """Let the next load bring all events that its metering database lacks; returns how many batches were put back.

    For one that was restored from a backup, or begins anew: what it holds already it keeps as it is.
    """
    return store.make_all_pending(reporting)


def _refuse_another(reporting: Connection, metering: Connection) -> None:
    missing = store.missing_load(reporting, metering)
    if missing is not None:
        load_id, started_at = missing
        lacks = f"load {load_id} of {format_instant(started_at)}, the last to take over events, is not in it"
        raise Refused(
            "the metering database cannot go on from here",
            [
                f"{lacks}: it was restored from a backup, or is another one",
                "restore its newest backup, or let it take all events over again: tally rebuild --events",
            ],
        )


@contextmanager
def _snapshot(connection: Connection) -> Iterator[None]:
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield
