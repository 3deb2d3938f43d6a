"""Files of events or notifications, handed to the ingest service in batches, with a summary of what became of them.

What makes an event acceptable belongs to ingest.py, what a notification means to its provider.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import islice
from typing import BinaryIO, TypeVar

from tally.domain.errors import InvalidEvent
from tally.domain.event import Event
from tally.providers.openstack.notifications import map_notification, read_notifications
from tally.services.ingest import EVENTS_PER_TRANSACTION, Ingest, InvalidInputEvent, Outcome

EXAMPLES_PER_REASON = 3
_Item = TypeVar("_Item")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class Format(StrEnum):
    """What a file holds: JSON lines of Tally events, or notifications of OpenStack nova."""

    TALLY = "tally"
    NOVA = "nova"


@dataclass
class Summary:
    """What became of the inputs; ``examples`` holds the first few rejections of each reason."""

    accepted: int = 0
    deduplicated: int = 0
    rejected: int = 0
    ignored: int = 0  # notifications that change nothing that is billed
    reasons: Counter[str] = field(default_factory=Counter)
    examples: dict[str, list[Outcome]] = field(default_factory=dict)

    def add(self, outcomes: Iterable[Outcome]) -> None:
        """Count outcomes."""
        for outcome in outcomes:
            if outcome.status == "accepted":
                self.accepted += 1
            elif outcome.status == "deduplicated":
                self.deduplicated += 1
            else:
                self._reject(outcome)

    def _reject(self, outcome: Outcome) -> None:
        self.rejected += 1
        self.reasons[outcome.reason] += 1
        examples = self.examples.setdefault(outcome.reason, [])
        if len(examples) < EXAMPLES_PER_REASON:
            examples.append(outcome)


def ingest_stream(
    ingest: Ingest, stream: BinaryIO, form: Format, cloud: str, summary: Summary, progress: Callable[[], None]
) -> None:
    """Take all inputs of a stream, adding to ``summary`` and calling ``progress`` after each batch.

    ``cloud`` names the installation that sent notifications; events name it themselves.

    Raises:
        InvalidInput: if the stream as a whole is no JSON.
        Unavailable: if the database fails; taking the same stream again is safe.
    """
    if form is Format.TALLY:
        for raws in _batches(_lines(stream)):
            summary.add(ingest.ingest(raws))
            progress()
        return
    for mapped in _batches(_mapped(stream, cloud)):
        events = [event for event in mapped if event is not None]
        summary.ignored += len(mapped) - len(events)
        summary.add(ingest.ingest_events(events))
        progress()


def _lines(stream: BinaryIO) -> Iterator[bytes]:
    for number, line in enumerate(stream):
        text = (line.removeprefix(_BYTE_ORDER_MARK) if number == 0 else line).strip()
        if text:
            yield text


def _mapped(stream: BinaryIO, cloud: str) -> Iterator[Event | InvalidInputEvent | None]:
    for notification in read_notifications(stream):
        try:
            yield map_notification(notification.message, cloud)
        except InvalidEvent as error:
            yield InvalidInputEvent(notification.raw, error.reason, error.detail, cloud, platform="openstack")


def _batches(items: Iterator[_Item]) -> Iterator[Sequence[_Item]]:
    while batch := list(islice(items, EVENTS_PER_TRANSACTION)):
        yield batch
