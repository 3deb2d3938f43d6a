"""A server as a notification of nova describes it: what is billed of it, in Tally's words and units.

Both families of notifications end here, under the field names of the unversioned one.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Any

from tally.domain.errors import InvalidEvent

# Nova's names of states that the price list knows by another name (rule 27).
STATES = {"stopped": "shutoff", "shelved_offloaded": "shelved", "resized": "active"}

MIB_PER_GIB = 1024

# Nova's own columns are 32-bit integers; more digits are an error, not a server.
_WHOLE = re.compile(r"\d{1,12}", re.ASCII)


class Change(Enum):
    """What a notification can mean for a lifetime."""

    BEGIN = "begin"
    SIGN_OF_LIFE = "sign of life"
    CHANGE = "change"
    END = "end"


@dataclass(frozen=True, slots=True)
class Server:
    """One server at one notification; a field is checked only when it is needed."""

    fields: Mapping[str, Any]

    @property
    def id(self) -> str:
        """The server's UUID."""
        return self._text("instance_id")

    @property
    def project(self) -> str:
        """The project that owns it, whoever acted on it."""
        return self._text("tenant_id")

    @property
    def nova_state(self) -> str:
        """Nova's vm_state, in lower case."""
        return self._text("state").lower()

    @property
    def state(self) -> str:
        """The state in the words of the price list."""
        return STATES.get(self.nova_state, self.nova_state)

    @property
    def ever_ran(self) -> bool:
        """Whether it has ever been active: nova sets launched_at then, and never takes it back."""
        return "launched_at" not in self.fields or self._is_set("launched_at")

    @property
    def deleted(self) -> bool:
        """Whether it is deleted, softly or for good."""
        return self._is_set("deleted_at") or self.nova_state == "deleted"

    @property
    def size(self) -> dict[str, Any]:
        """vcpus, ram_gb (GiB, exact), disk_gb (root and ephemeral, GiB; no swap), flavor by its name."""
        size: dict[str, Any] = {
            "vcpus": self._whole("vcpus"),
            "ram_gb": _gib(self._whole("memory_mb")),
            "disk_gb": self._whole("root_gb") + self._whole("ephemeral_gb"),
        }
        flavor = self.fields.get("instance_type")
        return size | {"flavor": flavor} if isinstance(flavor, str) and flavor else size

    @property
    def origin(self) -> dict[str, Any]:
        """What explains the event later on, in nova's own words; a field without a text is left out."""
        names = {"state": "state", "flavor_id": "instance_flavor_id", "display_name": "display_name"}
        found = {ours: self.fields.get(theirs) for ours, theirs in names.items()}
        return {name: value for name, value in found.items() if isinstance(value, str)}

    def billable(self, change: Change) -> bool:
        """Whether the notification changes what is billed.

        A build that fails or is deleted ends like any other, but nothing billable ever began. An ``exists`` also audits
        servers that are gone, and must not bring them back.
        """
        if change is Change.BEGIN:
            return self.nova_state == "active"
        if not self.ever_ran:
            return False
        if change is Change.END:
            return True
        if change is Change.SIGN_OF_LIFE and self.deleted:
            return False
        return self.nova_state not in ("building", "deleted")

    def _is_set(self, name: str) -> bool:
        return self.fields.get(name) not in (None, "", "None")

    def _text(self, name: str) -> str:
        value = self.fields.get(name)
        if not isinstance(value, str) or not value:
            raise InvalidEvent("invalid_event", f"the server's {name} is missing or not a text")
        return value

    def _whole(self, name: str) -> int:
        """Read a whole number, which some senders write as text."""
        value = self.fields.get(name)
        if isinstance(value, bool) or not isinstance(value, int | str | Decimal):
            raise InvalidEvent("invalid_event", f"the server's {name} is missing or not a number")
        text = str(value).removesuffix(".0")
        if not _WHOLE.fullmatch(text):
            raise InvalidEvent("invalid_event", f"the server's {name} is {str(value)[:30]!r}, not a whole number")
        return int(text)


def _gib(mib: int) -> int | Decimal:
    """Convert exactly: 512 is 0.5, 8192 is 8."""
    whole, rest = divmod(mib, MIB_PER_GIB)
    return whole if rest == 0 else Decimal(mib) / MIB_PER_GIB
