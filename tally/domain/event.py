"""The Tally event: what it is made of, how it is read, and when two events are the same (rules 1 to 5).

What its type does to a resource is the registry's business (resource_type.py), not this module's.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal, cast

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
MAX_DEPTH = 32
MAX_EXPONENT = 100


@dataclass(frozen=True, slots=True)
class Event:
    """One lifecycle event of one resource of one cloud, as it was sent."""

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


def decode_event(raw: bytes) -> Event:
    """Read the JSON text of one event.

    Raises:
        InvalidEvent: with a reason and a detail, whatever is wrong with it.
    """
    return parse_event(decode_json(raw))


def decode_json(raw: bytes) -> Any:
    """Read JSON with decimals instead of binary floats, refusing duplicate keys, NaN and too large a text."""
    if len(raw) > MAX_EVENT_BYTES:
        raise InvalidEvent("too_large", f"{len(raw)} bytes; an event has at most {MAX_EVENT_BYTES}")
    try:
        return json.loads(
            raw.decode("utf-8"),
            parse_float=Decimal,
            parse_constant=_refuse_constant,
            object_pairs_hook=_object_without_duplicates,
        )
    except UnicodeDecodeError as error:
        raise InvalidEvent("invalid_json", f"not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InvalidEvent("invalid_json", f"nested deeper than {MAX_DEPTH} levels") from None
    except (ValueError, ArithmeticError) as error:
        raise InvalidEvent("invalid_json", str(error)[:200]) from None


def parse_event(raw: Any) -> Event:
    """Turn decoded JSON into an Event; numbers in it are int or Decimal, never float.

    Raises:
        InvalidEvent: with the first thing that is wrong.
    """
    if not isinstance(raw, dict):
        raise InvalidEvent("invalid_event", "an event is a JSON object")
    unknown = sorted(set(raw) - FIELDS)
    if unknown:
        raise InvalidEvent("invalid_event", f"unknown field {unknown[0][:60]!r}; what is extra belongs into payload")
    payload = raw.get("payload", {})
    if payload is None:
        payload = {}
    if not isinstance(payload, dict):
        raise InvalidEvent("invalid_event", "payload is not an object")
    check_value(payload, "payload")
    source = raw.get("source", "collector")
    if source not in SOURCES:
        raise InvalidEvent("invalid_event", "source is neither 'collector' nor 'reconciliation'")
    texts = {name: _text(raw, name) for name in TEXT_FIELDS}
    return Event(timestamp=_timestamp(raw.get("timestamp")), source=cast("Source", source), payload=payload, **texts)


def content_hash(event: Event) -> bytes:
    """Hash every field by value: 1 equals 1.0, and one instant is the same in every zone (rule 1)."""
    fields = [
        format_instant(event.timestamp),
        event.event_type,
        event.platform,
        event.resource_type,
        event.resource_id,
        event.project_id,
        event.source,
        event.payload,
    ]
    return hashlib.sha256(canonical_json(fields).encode()).digest()


def canonical_json(value: Any) -> str:
    """One text per value: sorted keys, no white space, numbers in their shortest decimal form."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_canonical(item) for item in value]
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return value
    # A number becomes a tagged list, since a text of the same digits is another value.
    number = Decimal(value)
    return ["#", str(number.normalize()) if number else "0"]


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
    exponent = cast("int", decimal.as_tuple().exponent)
    if abs(decimal.adjusted()) > MAX_EXPONENT or abs(exponent) > MAX_EXPONENT:
        raise InvalidEvent("number_out_of_range", f"{path} is beyond 1e{MAX_EXPONENT} or finer than 1e-{MAX_EXPONENT}")


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


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _object_without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        keys = [key for key, _ in pairs]
        twice = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"the key {twice[:60]!r} appears twice in one object")
    return result
