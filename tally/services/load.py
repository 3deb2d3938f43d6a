"""Load what has arrived into the metering database (rule 18): one snapshot, one transaction, one load id."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from tally.services.handover import refuse_unlike
from tally.store.database import Connection, reading
from tally.store.metering import load as store
from tally.store.metering.handover import Taken, remember


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
        Refused: if one of the databases lacks events that the other has had from it.
    """
    refuse_unlike(reporting, metering)
    with reading(reporting):
        started_at = clock()
        batches = store.pending_batches(reporting)
        version = store.registry_version(reporting)
        with metering.transaction():
            load_id = store.next_load_id(metering)
            store.begin_load(metering, load_id, started_at, version)
            events = store.copy_all(reporting, metering, load_id)
    if batches:
        with reporting.transaction():
            store.forget_pending(reporting, batches)
            remember(reporting, Taken(load_id, started_at))
    if events:
        store.refresh_statistics(metering)
    return Load(load_id, events, version, started_at)
