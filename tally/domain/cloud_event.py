"""CloudEvents 1.0 as a form of the Tally event: the same content under the names of that standard.

``source`` is /platform/cloud, ``subject`` is resource_type/resource_id, and the extension ``projectid`` the project.
"""

from typing import Any

from tally.domain.errors import InvalidEvent
from tally.domain.event import Event, parse_event

# The attributes that become fields under another name.
_FIELDS = {"id": "event_id", "type": "event_type", "time": "timestamp", "projectid": "project_id"}


def map_cloud_event(value: Any) -> Event:
    """Turn the decoded JSON of a structured CloudEvent into an Event; extensions that Tally does not know are ignored.

    Raises:
        InvalidEvent: naming what is wrong.
    """
    if not isinstance(value, dict):
        raise InvalidEvent("invalid_event", "a CloudEvent is a JSON object")
    if value.get("specversion") != "1.0":
        raise InvalidEvent("invalid_event", "specversion is not 1.0")
    if "data_base64" in value:
        raise InvalidEvent("invalid_event", "data_base64 is not read; the payload is a JSON object in data")
    root, slash, cloud = _text(value, "source").removeprefix("/").partition("/")
    if not slash:
        raise InvalidEvent("invalid_event", "source is not /platform/cloud")
    resource_type, slash, resource_id = _text(value, "subject").partition("/")
    if not slash:
        raise InvalidEvent("invalid_event", "subject is not resource_type/resource_id")
    fields = {field: value.get(attribute) for attribute, field in _FIELDS.items()}
    return parse_event(
        fields
        | {
            "platform": root,
            "cloud": cloud,
            "resource_type": resource_type,
            "resource_id": resource_id,
            "source": value.get("tallysource", "collector"),
            "payload": value.get("data"),
        }
    )


def claims_of(value: Any) -> tuple[str, str, str, str]:
    """Return the cloud, event_id, platform and resource_type that something claims which is no event; '' for none."""
    texts = {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
    platform, slash, cloud = texts.get("source", "").removeprefix("/").partition("/")
    return cloud, texts.get("id", ""), platform if slash else "", texts.get("subject", "").partition("/")[0]


def _text(value: dict[str, Any], name: str) -> str:
    text = value.get(name)
    if not isinstance(text, str):
        raise InvalidEvent("invalid_event", f"{name} is missing or not a text")
    return text
