"""Timelines are derived run by run, of the resources that have changed; here they are derived again, all of them."""

from tally.services.runs import metering_lock
from tally.store.database import Connection
from tally.store.metering import timelines as store


def derive_again(metering: Connection) -> None:
    """Let the next run derive all timelines from the events, as the first one did; waits for a run under way.

    Raises:
        Unavailable: if that run takes longer than metering_lock waits.
    """
    with metering_lock(metering):
        store.forget_derived(metering)
