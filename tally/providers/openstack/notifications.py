"""Notifications of nova as Tally events: the decision which of them count, and what becomes of one.

Reading files is done in reading.py, opening messages in envelope.py, the two families in legacy.py and versioned.py.
Other services' notifications (scheduler, volumes, images ...) are ignored here, not guessed.
"""

from collections.abc import Callable, Collection, Mapping
from typing import Any, Literal

from tally.domain.errors import InvalidEvent
from tally.domain.event import Event, parse_event
from tally.domain.instants import format_instant
from tally.providers.openstack import legacy, versioned
from tally.providers.openstack.envelope import Envelope, open_envelope
from tally.providers.openstack.reading import Notification, read_notifications
from tally.providers.openstack.server import Change, Server

__all__ = ["FAMILIES", "Family", "Notification", "map_notification", "read_notifications"]

Family = Literal["legacy", "versioned"]

FAMILIES: tuple[Family, ...] = ("legacy", "versioned")

_CHANGES: Mapping[str, tuple[Family, Change]] = {
    **{name: ("legacy", change) for name, change in legacy.CHANGES.items()},
    **{name: ("versioned", change) for name, change in versioned.CHANGES.items()},
}
_FIELDS: Mapping[Family, Callable[[Any], Mapping[str, Any]]] = {"legacy": legacy.fields, "versioned": versioned.fields}


def map_notification(message: Any, cloud: str, families: Collection[Family] = FAMILIES) -> Event | None:
    """Turn a decoded notification into a Tally event, or None if it changes nothing that is billed.

    A cloud that sends both families (``notification_format = both``) tells each fact twice under two ids; the second
    telling is an update that changes nothing. ``families`` leaves one of them out.

    Raises:
        InvalidEvent: if it should count and cannot be read, or was no JSON in the first place.
    """
    if isinstance(message, InvalidEvent):
        raise message
    envelope = open_envelope(message)
    family, change = _CHANGES.get(envelope.event_type, (None, None))
    if family is None or change is None or family not in families or envelope.failure:
        return None
    server = Server(_FIELDS[family](envelope.payload))
    if not server.billable(change):
        return None
    return _event(envelope, server, change, cloud)


def _event(envelope: Envelope, server: Server, change: Change, cloud: str) -> Event:
    if not isinstance(envelope.message_id, str) or not envelope.message_id:
        raise InvalidEvent("invalid_event", "message_id is missing or not a text")
    payload: dict[str, Any] = {"nova": server.origin}
    if change is not Change.END:
        payload |= {"size": server.size, "state": server.state}
    return parse_event(
        {
            "event_id": envelope.message_id,
            "timestamp": format_instant(envelope.instant),
            "event_type": envelope.event_type,
            "platform": "openstack",
            "cloud": cloud,
            "resource_type": "instance",
            "resource_id": server.id,
            "project_id": server.project,
            "source": "collector",
            "payload": payload,
        }
    )
