"""Timelines are derived run by run, of the resources that have changed; here they are derived again, all of them."""

from collections.abc import Callable

from tally.services.runs import metering_lock
from tally.store.database import Connection
from tally.store.metering import timelines as store


def derive_again(metering: Connection, say: Callable[[str], object] = lambda _: None) -> None:
    """Let the next run derive all timelines from the events, as the first one did; waits for a run under way.

    Raises:
        Unavailable: if that run takes longer than metering_lock waits.
    """
    with metering_lock(metering, say=say):
        store.forget_derived(metering)


def go_on_by(metering: Connection, sql: str) -> None:
    """Let a run go on from what is kept only if the same SQL has derived it; the caller holds the metering lock.

    ``sql`` is the hash of that by which the run derives. A later version of Tally so takes over no fault of an earlier
    one, and finds no table in a former shape.
    """
    if store.derived_by(metering) != sql:
        store.forget_derived(metering, sql)
