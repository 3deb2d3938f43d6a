"""Instants: integer microseconds in UTC, from parse to compare (rule 2). A naive timestamp never passes this door."""

import re
from datetime import UTC, datetime, timedelta

from tally.domain.errors import InvalidInput

_ISO = re.compile(
    r"(?P<seconds>\d{4}-\d{2}-\d{2}[T ]\d{2}:\d{2}(:\d{2})?)"
    r"([.,](?P<fraction>\d{1,18}))?"
    r"(?P<zone>[zZ]|[+-]\d{2}:?\d{2})",
    re.ASCII,
)
# As nearly every sender writes it: what fromisoformat reads alone, exactly as it would be read below.
_UTC = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d{3}|\.\d{6})?Z", re.ASCII)
MICROSECOND = timedelta(microseconds=1)


def parse_instant(text: str) -> datetime:
    """Read an ISO 8601 timestamp with a zone as a UTC datetime.

    Digits beyond the microsecond are cut off, so that a resent nanosecond timestamp stays the same instant.

    Raises:
        InvalidInput: if it is not ISO 8601, has no zone, or does not exist in the calendar.
    """
    if _UTC.fullmatch(text) is not None:
        try:
            return datetime.fromisoformat(text)
        except ValueError as error:
            raise InvalidInput(f"{text[:60]!r} does not exist in the calendar: {error}") from None
    match = _ISO.fullmatch(text)
    if match is None:
        raise InvalidInput(f"{text[:60]!r} is not an ISO 8601 timestamp with a zone, such as 2026-03-01T00:00:00Z")
    zone = "+00:00" if match["zone"] in "zZ" else match["zone"]
    try:
        instant = datetime.fromisoformat(match["seconds"] + zone).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise InvalidInput(f"{text[:60]!r} does not exist in the calendar: {error}") from None
    return instant.replace(microsecond=int((match["fraction"] or "0").ljust(6, "0")[:6]))


def format_instant(instant: datetime) -> str:
    """Write a UTC datetime as ISO 8601 with Z, with a fraction only where there is one."""
    if instant.tzinfo is not UTC:
        instant = instant.astimezone(UTC)
    return instant.isoformat()[:-6] + "Z"


def microseconds(length: timedelta) -> int:
    """Return the exact length in microseconds."""
    return length // MICROSECOND
