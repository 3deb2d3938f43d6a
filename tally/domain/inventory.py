"""What a platform says of its resources when it is asked for a list: the values, and who is asked (the adapter).

Providers implement Adapter, one for each platform. What is concluded from a listing is decided in drift.py.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from tally.domain.errors import InvalidEvent
from tally.domain.event import MAX_TEXT_BYTES, check_value


@dataclass(frozen=True, slots=True)
class Listed:
    """A resource as the platform lists it, in the words that the platform's collector uses for it.

    None means that the platform does not tell: what is known stays as it is. ``size`` holds all dimensions with their
    descriptive attributes, numbers as int or Decimal; a size that the collector would write otherwise comes back as a
    difference on every sync. ``state`` is of the price list's vocabulary.

    Instants are the platform's own, with a zone; leave out those that mean something else (nova resets launched_at with
    every resize). ``updated_at`` is for a field that moves with every change of size, state and project. ``deleted_at``
    says that the resource is deleted for good (a soft-deleted server is not): it is listed only to tell when.
    """

    resource_id: str
    project_id: str | None = None
    state: str | None = None
    size: Mapping[str, Any] | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    deleted_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Unknown:
    """A resource of which the platform answers that it cannot tell, as nova does while a cell is down.

    It is there for all we know: it is never closed and never changed.
    """

    resource_id: str


@dataclass(frozen=True, slots=True)
class Gap:
    """A part of the listing that is missing: a page that failed, a project or a region that did not answer.

    What is missing from a listing with a gap may be in the gap, so nothing of its type is closed for being absent.
    """

    reason: str


Answer = Listed | Unknown | Gap


class Adapter(Protocol):
    """How the resources of one cloud are listed. Made for one sync; it may keep what serves several types."""

    @property
    def resource_types(self) -> Sequence[str]:
        """The resource types that it can list. Resources of other types are left alone."""

    def list_resources(self, resource_type: str) -> Iterator[Answer]:
        """List all resources of a type, of all projects, page by page.

        A listing that ends without a Gap and without raising is taken for complete: what it does not hold is gone.
        So a page that fails must be a Gap (and the next pages may follow) or raise, whatever the exception. Where a
        platform pages by offset, list in a stable order and make a Gap of a number that does not fit its total.
        """


AdapterFactory = Callable[[str], Adapter]  # from the name of a cloud


def fault(answer: Listed | Unknown) -> str:
    """Tell what of an answer cannot be kept, in one line; empty if all can. Whether a size fits its type is not asked.

    A resource with a fault cannot be told from others, so it counts as a gap.
    """
    try:
        _check_name("resource_id", answer.resource_id)
        if isinstance(answer, Listed):
            for name in ("project_id", "state"):
                if getattr(answer, name):
                    _check_name(name, getattr(answer, name))
            if answer.size is not None:
                check_value(dict(answer.size), "size")
            for name in ("created_at", "updated_at", "deleted_at"):
                _check_instant(name, getattr(answer, name))
    except (InvalidEvent, TypeError, ValueError) as error:
        detail = error.detail if isinstance(error, InvalidEvent) else str(error)
        return f"resource {str(answer.resource_id)[:60]!r}: {detail}"
    return ""


def _check_name(name: str, text: Any) -> None:
    if not isinstance(text, str) or not text:
        raise InvalidEvent("invalid_event", f"{name} is missing or not a text")
    check_value(text, name)
    if len(text.encode()) > MAX_TEXT_BYTES:
        raise InvalidEvent("invalid_event", f"{name} is longer than {MAX_TEXT_BYTES} bytes")


def _check_instant(name: str, instant: Any) -> None:
    if instant is not None and (not isinstance(instant, datetime) or instant.tzinfo is None):
        raise InvalidEvent("invalid_timestamp", f"{name} is no instant with a zone")
