"""The formats in which events arrive, by the names under which dead letters keep them, and how one input is read.

What a format means belongs to its mapper; how files and requests are cut into inputs, to those who read them.
"""

from collections.abc import Callable, Mapping

from tally.domain.cloud_event import map_cloud_event
from tally.domain.errors import InvalidEvent
from tally.domain.event import Event, decode_event, decode_json
from tally.providers.openstack.notifications import map_notification
from tally.store.reporting.rejected import TALLY_FORMAT


def read_input(form: str, raw: bytes, cloud: str) -> Event | None:
    """Read one input that came from ``cloud`` ('' where that is not known); None if it changes nothing that is billed.

    Raises:
        InvalidEvent: with a reason and a detail, whatever is wrong with it.
    """
    reader = _READERS.get(form)
    if reader is None:
        raise InvalidEvent("unknown_format", f"{form[:60]!r} is not a format that this version of Tally reads")
    return reader(raw, cloud)


_READERS: Mapping[str, Callable[[bytes, str], Event | None]] = {
    TALLY_FORMAT: lambda raw, _: decode_event(raw),
    "cloudevents": lambda raw, _: map_cloud_event(decode_json(raw)),
    "nova": lambda raw, cloud: map_notification(decode_json(raw), cloud),
}
