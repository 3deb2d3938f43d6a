"""The reporting and the metering database go on only from the same events: either may have been restored from a backup.

Without what the lost database had taken, a month would be billed too low; without what it had handed on, the projection
would contradict the timelines for ever.
"""

from collections import Counter
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass

from tally.domain.errors import Refused
from tally.domain.instants import format_instant
from tally.services.ingest import Ingest
from tally.store.database import Connection
from tally.store.metering import handover as store

_REMEDY = "restore its newest backup, or bring both together: tally rebuild --events"


@dataclass(frozen=True, slots=True)
class BroughtTogether:
    """What bring_together did."""

    batches: int  # put back into the outbox, for the next load
    accepted: int  # events that the reporting database has again
    rejected: int  # events that it would not take: dead letters, as of any sender


def refuse_unlike(reporting: Connection, metering: Connection) -> None:
    """Let a load begin only where neither database lacks what the other has had from it.

    Raises:
        Refused: if the metering database lacks the last load that took events over, or the reporting database an event
            that it had handed on.
    """
    taken, brought = store.last_taken(reporting), store.last_brought(metering)
    if taken is not None and not store.holds(metering, taken):
        load = f"load {taken.load_id} of {format_instant(taken.started_at)}, the last to take events, is not in it"
        raise Refused(
            "the metering database cannot go on from here",
            [f"{load}: it was restored from a backup, or is another one", _REMEDY],
        )
    after = taken.load_id if taken else 0
    if brought is None or brought.load_id <= after:
        return
    # A load that died before its batches left the outbox looks like this, too: then nothing is lacking.
    with closing(store.events_lacking(reporting, metering, after)) as parts:
        for _, lacking in parts:
            if lacking:
                event = f"event {lacking[0].event_id} of {lacking[0].cloud}"
                raise Refused(
                    "the reporting database cannot go on from here",
                    [f"{event}, which it had handed on, is not in it: it was restored from a backup", _REMEDY],
                )


def bring_together(
    reporting: Connection,
    metering: Connection,
    door: Ingest,
    progress: Callable[[int], object] = lambda _: None,
    at_once: int = store.EVENTS_AT_ONCE,
) -> BroughtTogether:
    """Give each database what it lacks of the events of the other; the caller holds the metering lock.

    What the reporting database lacks it takes at once, by the rules that hold for any sender; the next load brings what
    the metering database lacks. It can be broken off at any time, and begun again. ``progress`` is told how many more
    events were looked at, ``at_once`` of them in one part.
    """
    taken, brought = store.last_taken(reporting), store.last_brought(metering)
    outcomes: Counter[str] = Counter()
    for looked_at, lacking in store.events_lacking(reporting, metering, _known_to_both(metering, taken), at_once):
        outcomes.update(outcome.status for outcome in door.ingest_events(lacking))
        progress(looked_at)
    with reporting.transaction():
        batches = 0
        if taken is not None and not store.holds(metering, taken):
            batches = store.put_back_batches(reporting)
        store.forget(reporting)
        if brought is not None:
            store.remember(reporting, brought)
    return BroughtTogether(batches, outcomes["accepted"], outcomes["rejected"])


def events_to_look_at(reporting: Connection, metering: Connection) -> int:
    """How many events bring_together looks at."""
    return store.count_brought(metering, _known_to_both(metering, store.last_taken(reporting)))


def _known_to_both(metering: Connection, taken: store.Taken | None) -> int:
    """The load up to which the reporting database has all events: those that it was dumped with."""
    return taken.load_id if taken is not None and store.holds(metering, taken) else 0
