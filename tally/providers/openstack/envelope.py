"""The envelope of a notification: opened, whatever transport it came by.

What the payload means is the business of legacy.py and versioned.py.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import decode_json
from tally.domain.instants import parse_instant

# A message has at least one of these; an object without them is a collection of named messages.
ENVELOPE_KEYS = frozenset({"event_type", "oslo.message", "payload"})

_ZONE = re.compile(r"([zZ]|[+-]\d{2}:?\d{2})$", re.ASCII)


@dataclass(frozen=True, slots=True)
class Envelope:
    """One notification as its service sent it; nothing but the event type has been checked."""

    event_type: str
    message_id: Any
    timestamp: Any
    priority: Any
    payload: Any

    @property
    def failure(self) -> bool:
        """Whether it reports a failure: a text or an exception instead of what happened to a server."""
        return str(self.priority).upper() in ("ERROR", "CRITICAL")

    @property
    def instant(self) -> datetime:
        """When the service sent it; oslo writes UTC without saying so.

        Raises:
            InvalidEvent: if it is missing or no timestamp.
        """
        if not isinstance(self.timestamp, str):
            raise InvalidEvent("invalid_timestamp", "the notification has no timestamp")
        try:
            return parse_instant(self.timestamp if _ZONE.search(self.timestamp) else self.timestamp + "Z")
        except InvalidInput:
            raise InvalidEvent(
                "invalid_timestamp", f"{self.timestamp[:60]!r} is no timestamp such as 2026-03-01 00:00:00.000000"
            ) from None


def open_envelope(message: Any) -> Envelope:
    """Open a message: bare, wrapped by oslo (2.0), or as a listener of oslo.messaging hands it over.

    Raises:
        InvalidEvent: if it is no notification at all.
    """
    if not isinstance(message, Mapping):
        raise InvalidEvent("invalid_event", "a notification is a JSON object")
    if "oslo.message" in message:
        return open_envelope(_unwrapped(message["oslo.message"]))
    event_type = message.get("event_type")
    if not isinstance(event_type, str) or not event_type:
        raise InvalidEvent("invalid_event", "event_type is missing or not a text")
    metadata = message.get("metadata")
    outer = metadata if isinstance(metadata, Mapping) else {}
    return Envelope(
        event_type=event_type,
        message_id=message.get("message_id", outer.get("message_id")),
        timestamp=message.get("timestamp", outer.get("timestamp")),
        priority=message.get("priority"),
        payload=message.get("payload"),
    )


def _unwrapped(inner: Any) -> Any:
    """Read the JSON within the JSON of oslo's envelope; it is wrapped once, never deeper."""
    message = decode_json(inner.encode("utf-8", "surrogatepass")) if isinstance(inner, str) else inner
    if not isinstance(message, Mapping) or "oslo.message" in message:
        raise InvalidEvent("invalid_event", "oslo.message holds no notification")
    return message
