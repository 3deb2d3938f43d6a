"""Delivery of documents to other systems: what is handed over, to what, and when it is tried again.

What a document says belongs to billing_document.py; how a target takes one, to tally.store.targets.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, NamedTuple, Protocol

from tally.domain.billing_document import BillingDocument

DeliveryStatus = Literal["pending", "failed", "delivered", "withdrawn"]

FIRST_WAIT = timedelta(minutes=1)
LONGEST_WAIT = timedelta(hours=6)
_DOUBLINGS = 16  # more than lead to the longest wait


class Parcel(NamedTuple):
    """A document on its way to one target: the same name, key and bytes each time it is tried."""

    name: str  # where it lies, in a directory or a bucket
    idempotency_key: str  # of (run, document, target)
    body: bytes


class Target(Protocol):
    """A system that takes documents."""

    def deliver(self, parcel: Parcel) -> str:
        """Hand a document over, and say in one line what the target makes of it, once it keeps it for good.

        Raises:
            Refused: if it does not take this document; others it may.
            Unavailable: if it takes none now.
        """
        ...


@dataclass(frozen=True, slots=True)
class Destination:
    """A target by its name, with the first month whose documents it gets."""

    name: str
    first: str
    target: Target


def parcel(document: BillingDocument, target: str) -> Parcel:
    """Address a document to a target."""
    number = document.key.number
    return Parcel(f"{document.key.period}/{number}.json", f"{number}:{target}", document.body)


def wait_after(attempts: int) -> timedelta:
    """How long a document waits after so many attempts have failed: a minute, doubled each time, six hours at most."""
    return min(FIRST_WAIT * (1 << min(attempts - 1, _DOUBLINGS)), LONGEST_WAIT)
