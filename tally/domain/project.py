"""A registered project, and what its names and its metadata may hold. How projects relate is tally.domain.graph's."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import MAX_TEXT_BYTES, canonical_json, check_value
from tally.domain.resource_type import exact

# The platform of projects that group others by member_of, such as a customer: it has clouds, but no resources.
META_PLATFORM = "meta"

MAX_METADATA_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Project:
    """A registered project of one cloud."""

    id: UUID
    platform: str
    cloud: str
    external_id: str
    name: str | None
    metadata: Mapping[str, Any]
    created_at: datetime

    @property
    def address(self) -> str:
        """How people name it."""
        return f"{self.cloud}/{self.external_id}"


def check_name(what: str, text: str, most: int = MAX_TEXT_BYTES) -> None:
    """Raise InvalidInput unless ``text`` can be stored, is not empty and not longer than ``most`` bytes."""
    try:
        fits = 0 < len(text.encode()) <= most and "\0" not in text
    except UnicodeEncodeError:
        fits = False
    if not fits:
        raise InvalidInput(f"{what} {text[:60]!r} is empty, longer than {most} bytes or holds what is no text")


def check_cloud(name: str) -> None:
    """Raise InvalidInput unless a cloud may bear a name: a slash parts it from a project, and all of it can be seen."""
    check_name("cloud", name)
    if not is_cloud_name(name):
        raise InvalidInput(f"cloud {name[:60]!r} holds a slash or an invisible character; choose another name")


def is_cloud_name(text: str) -> bool:
    """Whether a text that can be stored may be the name of a cloud."""
    return "/" not in text and text.isprintable()


def check_metadata(metadata: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return metadata with decimals for floats; None is no metadata.

    Raises:
        InvalidInput: if they are no object, hold what cannot be stored, or are longer than 64 KiB.
    """
    checked = exact({} if metadata is None else metadata)
    try:
        check_value(checked, "metadata")
    except InvalidEvent as error:
        raise InvalidInput(error.detail) from None
    if not isinstance(checked, dict):
        raise InvalidInput("metadata is not an object")
    if len(canonical_json(checked).encode()) > MAX_METADATA_BYTES:
        raise InvalidInput(f"metadata is longer than {MAX_METADATA_BYTES // 1024} KiB of JSON")
    return checked
