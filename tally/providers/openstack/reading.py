"""Files of notifications, as they come: JSON lines, JSON documents, lists, and objects of named messages.

Each message is given with its own bytes, so that what cannot be mapped is kept as it was.
"""

import json
import re
from collections.abc import Iterator
from itertools import chain
from typing import Any, BinaryIO, NamedTuple, cast

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import decode_json
from tally.providers.openstack.envelope import ENVELOPE_KEYS

_DECODER = json.JSONDecoder()
_BLANK = re.compile(r"[ \t\n\r]*")


class Notification(NamedTuple):
    """One message of a file."""

    raw: bytes
    message: Any   # the decoded JSON; an InvalidEvent, which map_notification raises, where it cannot be decoded


def read_notifications(stream: BinaryIO) -> Iterator[Notification]:
    """Read the messages of a file; JSON lines are streamed, any other form is read whole.

    A broken line is given as such, and the others are read.

    Raises:
        InvalidInput: if the file as a whole is no JSON.
    """
    first = _line(stream)
    if not first:
        return
    if first.lstrip().startswith(b"{"):
        if _is_json(first):
            yield from _of_lines(chain([first], stream))
            return
        second = _line(stream)
        # Within one object a line never starts with a brace: this is the next message, and the first one is broken.
        if second.lstrip().startswith(b"{"):
            yield from _of_lines(chain([first, second], stream))
            return
        first += second
    yield from _of_document(first + stream.read())


def _of_lines(lines: Iterator[bytes]) -> Iterator[Notification]:
    for line in lines:
        raw = line.strip()
        if raw:
            yield from _of_line(raw)


def _of_line(line: bytes) -> Iterator[Notification]:
    message = _decoded(line)
    if isinstance(message, dict) and ENVELOPE_KEYS & message.keys():
        yield Notification(line, message)
        return
    try:
        parts = list(_parts(line))
    except (ValueError, RecursionError):
        parts = [line]
    for part in parts:
        yield Notification(part, _decoded(part))


def _of_document(document: bytes) -> Iterator[Notification]:
    try:
        parts = list(_parts(document))
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"the file is neither JSON lines nor JSON ({str(error)[:100]}); give notifications as nova sent them"
        ) from None
    for part in parts:
        yield Notification(part, _decoded(part))


def _parts(document: bytes) -> Iterator[bytes]:
    """Cut a document into its messages, byte for byte; raise ValueError if it is no JSON."""
    text = document.decode("utf-8")
    position = _skip_blank(text, 0)
    while position < len(text):
        value, end = _DECODER.raw_decode(text, position)
        if isinstance(value, list) or _is_collection(value):
            yield from _members(text, position)
        else:
            yield text[position:end].encode()
        position = _skip_blank(text, end)


def _members(text: str, position: int) -> Iterator[bytes]:
    """Cut the values out of a list or an object that is known to be valid and starts at the position."""
    named = text[position] == "{"
    position = _skip_blank(text, position + 1)
    while text[position] not in "]}":
        if named:
            _, end = _DECODER.raw_decode(text, position)
            position = _skip_blank(text, _skip_blank(text, end) + 1)
        _, end = _DECODER.raw_decode(text, position)
        yield text[position:end].encode()
        position = _skip_blank(text, end)
        if text[position] == ",":
            position = _skip_blank(text, position + 1)


def _is_collection(value: Any) -> bool:
    """Whether it is an object of named messages rather than a message."""
    if not isinstance(value, dict) or ENVELOPE_KEYS & value.keys():
        return False
    return bool(value) and all(isinstance(item, dict) for item in value.values())


def _decoded(raw: bytes) -> Any:
    try:
        return decode_json(raw)
    except InvalidEvent as error:
        return error


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _line(stream: BinaryIO) -> bytes:
    """Return the next line that is not blank, or nothing at the end."""
    return next((line for line in stream if line.strip()), b"")


def _skip_blank(text: str, position: int) -> int:
    return cast("re.Match[str]", _BLANK.match(text, position)).end()
