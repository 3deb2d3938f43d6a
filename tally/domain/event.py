"""The Tally event: what it is made of, how it is read, alone or in a batch, and when two are the same (rules 1 to 5).

What its type does to a resource is the registry's business (resource_type.py), not this module's.
"""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, NamedTuple, cast

import simplejson

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.instants import format_instant, parse_instant

Source = Literal["collector", "reconciliation"]
Payload = Mapping[str, Any]

SOURCES = ("collector", "reconciliation")
TEXT_FIELDS = ("event_id", "event_type", "platform", "cloud", "resource_type", "resource_id", "project_id")
FIELDS = frozenset((*TEXT_FIELDS, "timestamp", "source", "payload"))

# Limits on every input. The keys of an event share one index entry of at most 2,700 bytes in PostgreSQL.
MAX_TEXT_BYTES = 512
MAX_EVENT_BYTES = 256 * 1024
MAX_KEPT_BYTES = 8 * 1024 * 1024  # what is longer is not even kept as a dead letter: it stays with its sender
MAX_DEPTH = 32
MAX_EXPONENT = 100

# Numbers of so many digits need no closer look.
_SHORT_NUMBER = 18


@dataclass(slots=True)
class Event:
    """One lifecycle event of one resource of one cloud, as it was sent.

    Nobody changes one. It is not frozen because that makes each of a thousand in a batch five times as dear.
    """

    event_id: str
    timestamp: datetime
    event_type: str
    platform: str
    cloud: str
    resource_type: str
    resource_id: str
    project_id: str
    source: Source
    payload: Payload

    @property
    def resource(self) -> tuple[str, str, str]:
        """(cloud, resource_type, resource_id): what all keys and joins go by."""
        return (self.cloud, self.resource_type, self.resource_id)

    @property
    def synthetic(self) -> bool:
        """Whether reconciliation wrote it rather than the cloud's own collector."""
        return self.source == "reconciliation"


class Element(NamedTuple):
    """One input of a batch: its raw bytes, and what they say or why they say nothing."""

    raw: bytes
    value: Any  # decoded JSON, numbers in it int or Decimal; or the InvalidEvent that tells why there is none

    def event(self) -> Event:
        """Return the event that it is.

        Raises:
            InvalidEvent: with a reason and a detail, whatever is wrong with it.
        """
        if isinstance(self.value, InvalidEvent):
            raise self.value
        return parse_event(self.value, harmless=_is_harmless(self.raw))


class Batch(NamedTuple):
    """The body of a request: one event, or a list of them."""

    elements: list[Element]
    single: bool  # whether it is one event that is not in a list


def decode_event(raw: bytes) -> Event:
    """Read the JSON text of one event.

    Raises:
        InvalidEvent: with a reason and a detail, whatever is wrong with it.
    """
    return decode_element(raw).event()


def decode_element(raw: bytes) -> Element:
    """Read the JSON text of one input; what is wrong with it is its value, and never raised."""
    try:
        return Element(raw, decode_json(raw))
    except InvalidEvent as error:
        return Element(raw, error)


def split_batch(body: bytes, *, limit: int) -> Batch:
    """Read a JSON array of at most ``limit`` inputs, or a single one, decoding each once.

    An input that is JSON, but holds what no event may hold, is an element with an InvalidEvent for its value: it never
    loses its neighbours (rule 4). Each element is what decode_element makes of its raw bytes alone.

    Raises:
        InvalidInput: if the body as a whole is not JSON in UTF-8, or has more inputs.
    """
    try:
        text = body.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput(f"the body is not UTF-8 at byte {error.start}") from None
    begin = _past_space(text, 0)
    if not text.startswith("[", begin):
        element, end = _element_at(text, begin)
        return _whole(text, end, Batch([element], single=True))
    elements: list[Element] = []
    read = _element_at
    end = _past_space(text, begin + 1)
    if text.startswith("]", end):
        return _whole(text, end + 1, Batch(elements, single=False))
    while True:
        if len(elements) == limit:
            raise InvalidInput(f"the body has more than {limit} events; send them in several batches")
        element, end = read(text, end)
        elements.append(element)
        if isinstance(element.value, InvalidEvent):
            read = _bounded_element_at
        separator = _SEPARATOR.match(text, end)
        if separator is None:
            raise InvalidInput(f"the body is not JSON: expecting ',' or ']' at character {end}")
        end = separator.end()
        if separator[1] == "]":
            return _whole(text, end, Batch(elements, single=False))


def _element_at(text: str, begin: int) -> tuple[Element, int]:
    """Return the element that begins there, and where it ends."""
    try:
        value, end = _DECODER.raw_decode(text, begin)
    except (ValueError, RecursionError, InvalidEvent):
        return _bounded_element_at(text, begin)
    raw = text[begin:end].encode()
    return (Element(raw, value) if len(raw) <= MAX_EVENT_BYTES else decode_element(raw)), end


def _bounded_element_at(text: str, begin: int) -> tuple[Element, int]:
    """Do the same, and decode the element alone: an error within the whole text takes the time of reading all of it."""
    end = _end_of_element(text, begin)
    return decode_element(text[begin:end].encode()), end


def _end_of_element(text: str, begin: int) -> int:
    """Return the end of an element that holds what no event may hold.

    Raises:
        InvalidInput: if it is not even JSON, so that nobody can tell where it ends.
    """
    try:
        return _SKIPPER.raw_decode(text, begin)[1]
    except ValueError as error:
        raise InvalidInput(f"the body is not JSON: {str(error)[:200]}") from None
    except RecursionError:
        pass
    depth = 0
    for token in _BRACKETS_AND_TEXTS.finditer(text, begin):
        length = token.end() - token.start()
        if token[0][0] in "[{":
            depth += length
        elif token[0][0] in "]}":
            if length >= depth:
                return token.start() + depth
            depth -= length
    raise InvalidInput("the body is not JSON: it ends within its brackets")


def _past_space(text: str, begin: int) -> int:
    match = _SPACE.match(text, begin)
    assert match is not None
    return match.end()


def _whole(text: str, end: int, batch: Batch) -> Batch:
    if _past_space(text, end) != len(text):
        raise InvalidInput(f"the body is not JSON: extra text at character {end}")
    return batch


def decode_json(raw: bytes) -> Any:
    """Read JSON with decimals instead of binary floats, refusing duplicate keys, NaN and too large a text."""
    if len(raw) > MAX_EVENT_BYTES:
        raise InvalidEvent("too_large", f"{len(raw)} bytes; an event has at most {MAX_EVENT_BYTES}")
    try:
        return _DECODER.decode(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise InvalidEvent("invalid_json", f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidEvent("invalid_json", f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as error:
        raise InvalidEvent("invalid_json", str(error)[:200]) from None


def parse_event(raw: Any, *, harmless: bool = False) -> Event:
    """Turn decoded JSON into an Event; numbers in it are int or Decimal, never float.

    ``harmless`` says that it comes from decode_json, from a text that cannot hold more than numbers beyond the limits,
    which decode_json refuses: then nothing is looked for.

    Raises:
        InvalidEvent: with the first thing that is wrong.
    """
    if not isinstance(raw, dict):
        raise InvalidEvent("invalid_event", "an event is a JSON object")
    if not raw.keys() <= FIELDS:
        unknown = min(set(raw) - FIELDS)
        raise InvalidEvent("invalid_event", f"unknown field {unknown[:60]!r}; what is extra belongs into payload")
    payload = raw.get("payload")
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        raise InvalidEvent("invalid_event", "payload is not an object")
    if not harmless:
        check_value(payload, "payload")
    source = raw.get("source", "collector")
    if source not in SOURCES:
        raise InvalidEvent("invalid_event", "source is neither 'collector' nor 'reconciliation'")
    texts: tuple[Any, ...] = tuple(map(raw.get, TEXT_FIELDS))
    if not (harmless and _are_short_texts(texts)):
        texts = tuple(_text(raw, name) for name in TEXT_FIELDS)
    event_id, event_type, platform, cloud, resource_type, resource_id, project_id = texts
    timestamp = _timestamp(raw.get("timestamp"))
    return Event(
        event_id,
        timestamp,
        event_type,
        platform,
        cloud,
        resource_type,
        resource_id,
        project_id,
        cast("Source", source),
        payload,
    )


def encode_event(event: Event) -> bytes:
    """Write an event as the JSON text that decode_event reads.

    Raises:
        InvalidEvent: if its payload holds what JSON or Tally does not know, or its timestamp has no zone.
    """
    if event.timestamp.tzinfo is None:
        raise InvalidEvent("invalid_timestamp", "timestamp has no zone")
    check_value(event.payload, "payload")
    fields = {name: getattr(event, name) for name in TEXT_FIELDS}
    fields |= {"timestamp": format_instant(event.timestamp), "source": event.source, "payload": event.payload}
    return simplejson.dumps(fields, use_decimal=True).encode()


def content_hash(event: Event, payload: str | None = None) -> bytes:
    """Hash every field by value: 1 equals 1.0, and one instant is the same in every zone (rule 1).

    The id of a synthetic event says what was observed: seen again at another instant, it is the same (rule 9).
    ``payload`` is the canonical JSON of the payload, from who has it already.
    """
    fields = (
        event.event_type,
        event.platform,
        event.resource_type,
        event.resource_id,
        event.project_id,
        event.source,
    )
    instant = "null" if event.synthetic else f'"{format_instant(event.timestamp)}"'
    if payload is None:
        payload = canonical_json(event.payload)
    # The canonical JSON of all in one list, put together of its parts.
    return hashlib.sha256(f"[{instant},{','.join(map(_quoted, fields))},{payload}]".encode()).digest()


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no white space, numbers in their shortest decimal form.

    The text is for hashing and comparing only: a fraction is written as an object that no event can hold.
    """
    return _CANONICAL.encode(value)


def plain_json(value: Any) -> str | None:
    """Return the canonical JSON of a value if it is what any reader takes for it: if there are no decimals in it."""
    try:
        return _PLAIN.encode(value)
    except TypeError:
        return None


def _canonical_decimal(value: Any) -> Any:
    if isinstance(value, Decimal):
        whole = int(value)
        # The key holds a NUL, which no text of an event holds: no other value has this form.
        return whole if whole == value else {"\x00": f"{value:f}".rstrip("0")}
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"a {type(value).__name__} has no canonical form")


def _is_harmless(raw: bytes) -> bool:
    """Whether a JSON text is too flat for the limit of depth, and free of the escapes that NUL and surrogates need."""
    return b"\\u" not in raw and raw.count(b"{") + raw.count(b"[") <= MAX_DEPTH


def check_value(value: Any, path: str, depth: int = 0) -> None:
    """Refuse what PostgreSQL could not store or what serves only to do harm."""
    if depth > MAX_DEPTH:
        raise InvalidEvent("invalid_event", f"nested deeper than {MAX_DEPTH} levels")
    if isinstance(value, str):
        _check_text(value, path)
    elif isinstance(value, dict):
        for key, item in value.items():
            _check_text(key, path)
            check_value(item, f"{path}.{key[:60]}", depth + 1)
    elif isinstance(value, list):
        for item in value:
            check_value(item, path, depth + 1)
    elif isinstance(value, int | Decimal) and not isinstance(value, bool):
        _check_number(value, path)
    elif value is not None and not isinstance(value, bool):
        raise InvalidEvent("invalid_event", f"{path} is a {type(value).__name__}; numbers are decimals, never floats")


def _check_text(text: str, path: str) -> None:
    if "\x00" in text:
        raise InvalidEvent("invalid_event", f"{path} holds a NUL character")
    if not text.isascii() and any("\ud800" <= character <= "\udfff" for character in text):
        raise InvalidEvent("invalid_event", f"{path} holds half a surrogate pair")


def _check_number(number: int | Decimal, path: str) -> None:
    if isinstance(number, int) and abs(number) < 10**18:
        return
    decimal = Decimal(number)
    if not decimal.is_finite():
        raise InvalidEvent("number_out_of_range", f"{path} is not a finite number")
    exponent = cast("int", decimal.as_tuple().exponent)
    if abs(decimal.adjusted()) > MAX_EXPONENT or abs(exponent) > MAX_EXPONENT:
        raise InvalidEvent("number_out_of_range", f"{path} is beyond 1e{MAX_EXPONENT} or finer than 1e-{MAX_EXPONENT}")


def _are_short_texts(values: tuple[Any, ...]) -> bool:
    """Whether all are texts, none empty, and together so short that none can be too long; said in three steps."""
    try:
        together = "".join(values)
    except TypeError:
        return False
    return all(values) and len(together) <= MAX_TEXT_BYTES and together.isascii()


def _text(raw: Mapping[str, Any], name: str) -> str:
    value = raw.get(name)
    if not isinstance(value, str) or not value:
        raise InvalidEvent("invalid_event", f"{name} is missing or not a text")
    _check_text(value, name)
    if len(value.encode()) > MAX_TEXT_BYTES:
        raise InvalidEvent("invalid_event", f"{name} is longer than {MAX_TEXT_BYTES} bytes")
    return value


def _timestamp(value: Any) -> datetime:
    if not isinstance(value, str):
        raise InvalidEvent("invalid_timestamp", "timestamp is missing or not a text")
    try:
        return parse_instant(value)
    except InvalidInput as error:
        raise InvalidEvent("invalid_timestamp", str(error)) from None


def _integer(text: str) -> int:
    if len(text) > len("-1") + MAX_EXPONENT:
        raise InvalidEvent("number_out_of_range", f"a number is beyond 1e{MAX_EXPONENT}")
    number = int(text)
    if len(text) > _SHORT_NUMBER:
        _check_number(number, "a number")
    return number


def _decimal(text: str) -> Decimal:
    try:
        number = Decimal(text)
    except ArithmeticError:
        raise InvalidEvent("number_out_of_range", f"a number is beyond 1e{MAX_EXPONENT}") from None
    if len(text) > _SHORT_NUMBER or "e" in text or "E" in text:
        _check_number(number, "a number")
    return number


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        counts = Counter(key for key, _ in pairs)
        twice = next(key for key, count in counts.items() if count > 1)
        raise ValueError(f"the key {twice[:60]!r} appears twice in one object")
    return result


_DECODER = json.JSONDecoder(
    parse_int=_integer,
    parse_float=_decimal,
    parse_constant=_refuse_constant,
    object_pairs_hook=_object_without_duplicates,
)
# Finds the end of whatever has the form of JSON, and judges nothing.
_SKIPPER = json.JSONDecoder(parse_int=len, parse_float=len, parse_constant=len, strict=False)
_SPACE = re.compile(r"[ \t\n\r]*")
_SEPARATOR = re.compile(r"[ \t\n\r]*([,\]])[ \t\n\r]*")
# A text without an end goes on to the last character: else each quote in it would be tried as the beginning of one.
_BRACKETS_AND_TEXTS = re.compile(r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|[\[{]+|[\]}]+', re.DOTALL)
_PLAIN = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False)
_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=_canonical_decimal)
_quoted = json.encoder.encode_basestring
