"""Nova's unversioned notifications, ``compute.instance.*``: which of them change what is billed.

``update`` and ``resize.end`` are left out on purpose: the one carries a new flavor minutes before the resize is done,
the other the old flavor after it. What a payload's fields mean is said in server.py, whose names are these.
"""

from collections.abc import Mapping
from typing import Any

from tally.domain.errors import InvalidEvent
from tally.providers.openstack.server import Change

PREFIX = "compute.instance."

CHANGES: Mapping[str, Change] = {
    "compute.instance.create.end": Change.BEGIN,
    "compute.instance.exists": Change.SIGN_OF_LIFE,
    "compute.instance.delete.end": Change.END,
    "compute.instance.finish_resize.end": Change.CHANGE,
    "compute.instance.resize.confirm.end": Change.CHANGE,
    "compute.instance.resize.revert.end": Change.CHANGE,
    "compute.instance.power_on.end": Change.CHANGE,
    "compute.instance.power_off.end": Change.CHANGE,
    # A hard reboot starts a server that was stopped, and nothing else tells so.
    "compute.instance.reboot.end": Change.CHANGE,
    "compute.instance.pause.end": Change.CHANGE,
    "compute.instance.unpause.end": Change.CHANGE,
    # Older releases send the bare names.
    "compute.instance.suspend": Change.CHANGE,
    "compute.instance.suspend.end": Change.CHANGE,
    "compute.instance.resume": Change.CHANGE,
    "compute.instance.resume.end": Change.CHANGE,
    "compute.instance.rescue.end": Change.CHANGE,
    "compute.instance.unrescue.end": Change.CHANGE,
    "compute.instance.rebuild.end": Change.CHANGE,
    "compute.instance.shelve.end": Change.CHANGE,
    "compute.instance.shelve_offload.end": Change.CHANGE,
    "compute.instance.unshelve.end": Change.CHANGE,
    "compute.instance.soft_delete.end": Change.CHANGE,
    "compute.instance.restore.end": Change.CHANGE,
}


def fields(payload: Any) -> Mapping[str, Any]:
    """Return the fields of a server; the payload is flat.

    Raises:
        InvalidEvent: if the payload is no object.
    """
    if not isinstance(payload, Mapping):
        raise InvalidEvent("invalid_event", "payload is not an object")
    return payload
