"""Nova's versioned notifications, ``instance.*``: which of them change what is billed, and where their fields lie.

``update`` and ``resize.end`` are left out for the reasons that legacy.py gives.
"""

from collections.abc import Mapping
from typing import Any

from tally.domain.errors import InvalidEvent
from tally.providers.openstack.server import Change

PREFIX = "instance."

CHANGES: Mapping[str, Change] = {
    "instance.create.end": Change.BEGIN,
    "instance.exists": Change.SIGN_OF_LIFE,
    "instance.delete.end": Change.END,
    "instance.resize_finish.end": Change.CHANGE,
    "instance.resize_confirm.end": Change.CHANGE,
    "instance.resize_revert.end": Change.CHANGE,
    "instance.power_on.end": Change.CHANGE,
    "instance.power_off.end": Change.CHANGE,
    "instance.reboot.end": Change.CHANGE,
    "instance.pause.end": Change.CHANGE,
    "instance.unpause.end": Change.CHANGE,
    "instance.suspend.end": Change.CHANGE,
    "instance.resume.end": Change.CHANGE,
    "instance.rescue.end": Change.CHANGE,
    "instance.unrescue.end": Change.CHANGE,
    "instance.rebuild.end": Change.CHANGE,
    "instance.shelve.end": Change.CHANGE,
    "instance.shelve_offload.end": Change.CHANGE,
    "instance.unshelve.end": Change.CHANGE,
    "instance.soft_delete.end": Change.CHANGE,
    "instance.restore.end": Change.CHANGE,
}


def fields(payload: Any) -> Mapping[str, Any]:
    """Return the fields of a server under their unversioned names.

    Raises:
        InvalidEvent: if the payload or its flavor is no versioned object.
    """
    server = _data(payload, "payload")
    flavor = _data(server.get("flavor"), "payload.flavor")
    return {
        "instance_id": server.get("uuid"),
        "tenant_id": server.get("tenant_id"),
        "display_name": server.get("display_name"),
        "state": server.get("state"),
        "instance_type": flavor.get("name"),
        "instance_flavor_id": flavor.get("flavorid"),
        **{name: server[name] for name in ("launched_at", "deleted_at") if name in server},
        **{name: flavor.get(name) for name in ("vcpus", "memory_mb", "root_gb", "ephemeral_gb")},
    }


def _data(value: Any, where: str) -> Mapping[str, Any]:
    data = value.get("nova_object.data") if isinstance(value, Mapping) else None
    if not isinstance(data, Mapping):
        raise InvalidEvent("invalid_event", f"{where} is no versioned object")
    return data
