"""Delivery: each document of each finalized run goes to each target, once (docs/adr/0014-delivery-outbox.md).

What is to be delivered is derived from the ledger, so nothing can be missed; a document is marked as delivered only
after its target keeps it. Whoever is killed in between leaves it to the next, which hands over the same bytes under the
same name and key. How a target takes a document belongs to tally.store.targets.
"""

from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime

from tally.domain.billing_document import BillingDocument, DocumentKey
from tally.domain.delivery import DeliveryStatus, Destination, parcel, wait_after
from tally.domain.errors import InvalidInput, NotFound, Refused, TallyError, Unavailable
from tally.domain.period import BillingPeriod
from tally.store.database import Connection, connected
from tally.store.metering import deliveries as store
from tally.store.metering.deliveries import Backlog, DeliveryRow, ListKey, Progress
from tally.store.reporting import audit

_MONTH = len("2026-03")  # what the number of a document begins with

Clock = Callable[[], datetime]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one attempt at one target has come to; ``stopped`` says why it was given up before its end."""

    target: str
    new: int  # documents that were not in the outbox before
    delivered: int
    failed: int
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """What a person asks for documents that a target has had; ``what`` are numbers of documents, or months."""

    target: str
    what: Collection[str]
    reason: str
    actor: str
    at: datetime


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


def send_again(reporting: Connection, metering: Connection, request: DocumentRequest) -> int:
    """Ask for another sending of documents that a target had and has lost; it is audited. Returns how many they are.

    Each is sent under the same name and key, with the same bytes: whoever has it after all takes it once. What is under
    way already is not asked for again.

    Raises:
        InvalidInput: without a reason, or if something is neither a number nor a month.
        NotFound: naming what the target does not have.
    """
    documents = _named(metering, request, store.delivered, "{target} has nothing of {missing}, or waits for it")
    with metering.transaction():
        count = store.send_again(metering, request.target, documents, request.actor, request.reason, request.at)
        _record(reporting, "delivery.resend", request, count)
    return count


def withdraw(reporting: Connection, metering: Connection, request: DocumentRequest) -> int:
    """End the sending of documents that were asked for again; it is audited. Returns how many they are.

    What is on its way at this moment is waited for: if the target takes it, it counts as delivered. A document that a
    target has never had cannot be withdrawn.

    Raises:
        InvalidInput: without a reason, or if something is neither a number nor a month.
        NotFound: naming what is not being sent again.
    """
    documents = _named(metering, request, store.sent_again, "nothing of {missing} is being sent to {target} again")
    count = 0
    with metering.transaction():
        for key in sorted(documents, reverse=True):  # a delivery at work comes from the other end
            with store.awaited(metering, request.target, key):
                count += store.withdraw(metering, request.target, key, request.actor, request.reason, request.at)
        _record(reporting, "delivery.withdraw", request, count)
    return count


def _named(
    metering: Connection,
    request: DocumentRequest,
    of: Callable[[Connection, str, str], list[DocumentKey]],
    lacking: str,
) -> list[DocumentKey]:
    """Find the documents that are meant, ``of`` a target and a month; ``lacking`` says that there are none."""
    if not request.reason.strip():
        raise InvalidInput("it is recorded why; say it with --reason")
    found = {}
    for name in request.what:
        period = _month_of(name)
        found[name] = [key for key in of(metering, request.target, period) if name in (period, key.number)]
    if missing := [name for name, keys in found.items() if not keys]:
        told = lacking.format(target=request.target, missing=", ".join(missing))
        raise NotFound(f"{told}; tally deliveries tells")
    return list({key for keys in found.values() for key in keys})


def _record(reporting: Connection, action: str, request: DocumentRequest, count: int) -> None:
    detail = {"what": sorted(request.what), "documents": count, "reason": request.reason}
    audit.record(reporting, request.actor, action, request.target, detail)


def _month_of(name: str) -> str:
    try:
        return str(BillingPeriod.parse(name[:_MONTH]))
    except InvalidInput:
        kinds = "neither a month such as 2026-03 nor the number of a document, which begins with one"
        raise InvalidInput(f"{name!r} is {kinds}; tally deliveries lists them") from None


def backlog(metering: Connection) -> list[Backlog]:
    """What each target does not have, and since when."""
    return store.backlog(metering)


def progress(metering: Connection, period: str | None = None, target: str | None = None) -> list[Progress]:
    """How far each target is with each month, by the outbox as the last delivery left it."""
    return store.progress(metering, period, target)


def refuse_unknown(metering: Connection, target: str) -> None:
    """Refuse the name of a target that no delivery knows: a misspelt one would look like one that lacks nothing.

    Raises:
        NotFound: naming those that there are.
    """
    known = sorted({each.target for each in progress(metering)})
    if target not in known:
        raise NotFound(f"nothing was ever delivered to {target!r}; there are {', '.join(known) or 'no targets yet'}")


def list_deliveries(
    metering: Connection,
    *,
    period: str | None = None,
    target: str | None = None,
    status: DeliveryStatus | None = None,
    after: ListKey | None = None,
    limit: int,
) -> list[DeliveryRow]:
    """Return the next deliveries after (target, run_id, cloud, project_id, sign, sending)."""
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
