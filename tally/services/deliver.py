"""Delivery: each document of each finalized run goes to each target, once (docs/adr/0014-delivery-outbox.md).

What is to be delivered is derived from the ledger, so nothing can be missed; a document is marked as delivered only
after its target keeps it. Whoever is killed in between leaves it to the next, which hands over the same bytes under the
same name and key. How a target takes a document belongs to tally.store.targets.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from tally.domain.billing_document import BillingDocument
from tally.domain.delivery import DeliveryStatus, Destination, parcel, wait_after
from tally.domain.errors import Refused, TallyError, Unavailable
from tally.store.database import Connection, connected
from tally.store.metering import deliveries as store
from tally.store.metering.deliveries import DeliveryRow, ListKey, Progress

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt at one target has come to; ``stopped`` says why it was given up before its end."""

    target: str
    new: int  # documents that were not in the outbox before
    delivered: int
    failed: int
    stopped: str | None = None


def deliver(
    metering_url: str,
    destinations: Sequence[Destination],
    clock: Clock,
    *,
    period: str | None = None,
    only_due: bool = False,
) -> list[Outcome]:
    """Deliver to all targets at the same time, each over a connection of its own: none waits for another.

    ``only_due`` leaves out what waits for its next attempt.
    """

    def to(destination: Destination) -> Outcome:
        with connected(metering_url) as metering:
            return deliver_to(metering, destination, clock, period=period, only_due=only_due)

    with ThreadPoolExecutor(max_workers=max(len(destinations), 1)) as threads:
        return list(threads.map(to, destinations))


def deliver_to(
    metering: Connection, destination: Destination, clock: Clock, *, period: str | None = None, only_due: bool = False
) -> Outcome:
    """Deliver to one target what it does not have. It is given up as soon as it does not answer."""
    name = destination.name
    new = store.enqueue(metering, name, destination.first, clock())
    delivered = failed = 0
    for key in store.undelivered(metering, name, period, clock() if only_due else None):
        with store.held(metering, name, key) as mine:
            claimed = store.claim(metering, name, key, clock()) if mine else None
            if claimed is None:
                continue
            fault = _hand_over(metering, destination, clock, *claimed)
        if fault is None:
            delivered += 1
            continue
        failed += 1
        if not isinstance(fault, Refused):
            return Outcome(name, new, delivered, failed, str(fault))
    return Outcome(name, new, delivered, failed)


def due(metering: Connection, destinations: Sequence[Destination], now: datetime) -> list[str]:
    """Name the targets that lack documents of a finalized run, or have some that are due for another attempt."""
    return [each.name for each in destinations if store.anything_due(metering, each.name, each.first, now)]


def progress(metering: Connection, period: str | None = None, target: str | None = None) -> list[Progress]:
    """How far each target is with each month, by the outbox as the last delivery left it."""
    return store.progress(metering, period, target)


def list_deliveries(
    metering: Connection,
    *,
    period: str | None = None,
    target: str | None = None,
    status: DeliveryStatus | None = None,
    after: ListKey | None = None,
    limit: int,
) -> list[DeliveryRow]:
    """Return the next deliveries after (target, run_id, cloud, project_id, sign)."""
    return store.deliveries(metering, period=period, target=target, status=status, after=after, limit=limit)


def _hand_over(
    metering: Connection, destination: Destination, clock: Clock, attempts: int, document: BillingDocument
) -> TallyError | None:
    """Try to deliver one document, and note what came of it."""
    name, key = destination.name, document.key
    try:
        receipt = destination.target.deliver(parcel(document, name))
    except TallyError as error:
        fault = error
    except Exception as error:  # noqa: BLE001 - what fails in one target is no matter of the others
        fault = Unavailable(f"unexpected {type(error).__name__}")
    else:
        store.mark_delivered(metering, name, key, receipt, clock())
        return None
    store.mark_failed(metering, name, key, str(fault), clock() + wait_after(attempts))
    return fault
