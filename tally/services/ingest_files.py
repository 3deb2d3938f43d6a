"""Files of events or notifications, handed to the ingest service in batches, with a summary of what became of them.

What makes an event acceptable belongs to ingest.py, what a notification means to its provider.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import BinaryIO, NamedTuple, TypeVar

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import MAX_EVENT_BYTES, MAX_KEPT_BYTES, Event
from tally.providers.openstack.notifications import map_notification, read_notifications
from tally.services.ingest import EVENTS_PER_TRANSACTION, Ingest, InvalidInputEvent, Outcome

EXAMPLES_PER_REASON = 3
MAX_LINE_BYTES = MAX_KEPT_BYTES
MAX_BATCH_BYTES = 32 * 1024 * 1024
_Item = TypeVar("_Item")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_LOOK = 4096

# What people hand over by mistake, by its first bytes.
_OTHER = {
    b"\x1f\x8b": "a gzip file, which gunzip unpacks",
    b"PK\x03\x04": "a zip file, which unzip unpacks",
    b"BZh": "a bzip2 file, which bunzip2 unpacks",
    b"\xfd7zXZ": "an xz file, which unxz unpacks",
    b"\x28\xb5\x2f\xfd": "a zstd file, which unzstd unpacks",
    b"\xff\xfe": "UTF-16, which iconv turns into UTF-8",
    b"\xfe\xff": "UTF-16, which iconv turns into UTF-8",
}


class Format(StrEnum):
    """What a file holds: JSON lines of Tally events, or notifications of OpenStack nova."""

    TALLY = "tally"
    NOVA = "nova"


class Line(NamedTuple):
    """A line that holds something, and its number in the file."""

    number: int
    text: bytes


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
        InvalidInput: if the stream as a whole is something else, such as a compressed file or a table; nothing of it is
            taken.
        Unavailable: if the database fails; taking the same stream again is safe.
    """
    if form is Format.TALLY:
        begun = False
        for lines in _batches(_lines(stream, summary), lambda line: len(line.text)):
            _refuse_without_objects(lines, begun=begun)
            begun = True
            summary.add(_located(lines, ingest.ingest([line.text for line in lines])))
            progress()
        return
    for mapped in _batches(_mapped(stream, cloud)):
        events = [event for event in mapped if event is not None]
        summary.ignored += len(mapped) - len(events)
        summary.add(ingest.ingest_events(events))
        progress()


def _lines(stream: BinaryIO, summary: Summary) -> Iterator[Line]:
    """Read the lines that hold something; one too long to be kept is counted as rejected and stays with its sender."""
    begun = False
    number = 0
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES:
            _refuse_other(line[:_LOOK], begun=begun)
            while line and not line.endswith(b"\n"):
                line = stream.readline(MAX_LINE_BYTES)
            detail = f"line {number} is longer than {MAX_LINE_BYTES} bytes and was not kept"
            summary.add([Outcome("rejected", "", "too_large", f"{detail}; an event has at most {MAX_EVENT_BYTES}")])
            continue
        text = (line.removeprefix(_BYTE_ORDER_MARK) if number == 1 else line).strip()
        if text:
            _refuse_other(text, begun=begun)
            begun = True
            yield Line(number, text)


def _refuse_other(text: bytes, *, begun: bool) -> None:
    """Refuse a file by its beginning where its lines cannot be events: each line would become a dead letter."""
    if begun:
        return
    for signature, what in _OTHER.items():
        if text.startswith(signature):
            raise InvalidInput(f"this is {what}; events are JSON lines: one object a line")
    if b"\0" in text:
        raise InvalidInput("this is no text; events are JSON lines in UTF-8: one object a line")
    if text == b"{" or text.startswith(b"["):
        raise InvalidInput("this is one JSON document; events are JSON lines: one object a line, as jq -c writes them")


def _refuse_without_objects(lines: Sequence[Line], *, begun: bool) -> None:
    """Refuse a text or a table by its first lines: none of them is an object, not even a broken one."""
    if not begun and not any(line.text.startswith(b"{") for line in lines):
        start = lines[0].text[:30].decode("utf-8", "replace")
        raise InvalidInput(f"this begins with {start!r} and holds no JSON; events are JSON lines: one object a line")


def _located(lines: Sequence[Line], outcomes: Sequence[Outcome]) -> Iterator[Outcome]:
    """Say where a rejected line stands that does not tell an id to look for."""
    for line, outcome in zip(lines, outcomes, strict=True):
        nameless = outcome.status == "rejected" and not outcome.event_id
        yield replace(outcome, detail=f"line {line.number}: {outcome.detail}") if nameless else outcome


def _mapped(stream: BinaryIO, cloud: str) -> Iterator[Event | InvalidInputEvent | None]:
    for notification in read_notifications(stream):
        try:
            yield map_notification(notification.message, cloud)
        except InvalidEvent as error:
            yield InvalidInputEvent(
                notification.raw, error.reason, error.detail, cloud, platform="openstack", format=Format.NOVA
            )


def _batches(items: Iterator[_Item], size: Callable[[_Item], int] = lambda _: 0) -> Iterator[Sequence[_Item]]:
    """Cut into batches that fit a transaction and, by the size of the items in bytes, the memory."""
    batch: list[_Item] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if len(batch) == EVENTS_PER_TRANSACTION or total >= MAX_BATCH_BYTES:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch
