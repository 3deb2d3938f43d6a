"""The billing period: one calendar month in the installation's zone, half-open (rule 13)."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Self
from zoneinfo import ZoneInfo

from tally.domain.errors import InvalidInput
from tally.domain.instants import microseconds

# What PostgreSQL and Python both can hold, the end of the period included.
YEARS = range(1970, 9999)
# No month before it is metered: the partitions of Dagster have to begin somewhere.
FIRST_METERED = "2020-01"
_MONTH = re.compile(r"(\d{4})-(0[1-9]|1[0-2])", re.ASCII)


@dataclass(frozen=True, slots=True, order=True)
class BillingPeriod:
    """A calendar month such as 2026-03 in a zone such as UTC or Europe/Berlin."""

    year: int
    month: int
    zone: str = "UTC"

    @classmethod
    def parse(cls, text: str, zone: str = "UTC") -> Self:
        """Read YYYY-MM.

        Raises:
            InvalidInput: if it is no month or the zone does not exist.
        """
        match = _MONTH.fullmatch(text)
        if match is None or int(match[1]) not in YEARS:
            raise InvalidInput(f"{text!r} is not a billing period; write a month such as 2026-03")
        check_zone(zone)
        return cls(int(match[1]), int(match[2]), zone)

    @property
    def start(self) -> datetime:
        """The first instant of the period, in UTC."""
        return _midnight(self.first_day, self.zone)

    @property
    def end(self) -> datetime:
        """The first instant after the period, in UTC."""
        return _midnight(self.next.first_day, self.zone)

    @property
    def first_day(self) -> date:
        """The month by its first day: what the validity of price versions is compared with (rule 24)."""
        return date(self.year, self.month, 1)

    def instant_of(self, day: date) -> datetime:
        """The first instant of a day in the zone of the period, in UTC."""
        return _midnight(day, self.zone)

    @property
    def next(self) -> "BillingPeriod":
        """The period that follows."""
        years, month = divmod(self.month, 12)
        return BillingPeriod(self.year + years, month + 1, self.zone)

    @property
    def length_us(self) -> int:
        """Exact length in microseconds: 2,678,400,000,000 for a March in UTC."""
        return microseconds(self.end - self.start)

    def __str__(self) -> str:
        return f"{self.year:04d}-{self.month:02d}"


def check_zone(zone: str) -> None:
    """Raise InvalidInput unless the zone is in the IANA database."""
    try:
        ZoneInfo(zone)
    except (ValueError, OSError, KeyError):
        raise InvalidInput(f"{zone!r} is not a time zone; write UTC or a name such as Europe/Berlin") from None


def _midnight(day: date, zone: str) -> datetime:
    """The first instant of a day in a zone; where midnight is skipped by a clock change, the first one that exists."""
    local = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    instant = local.astimezone(UTC)
    gap = local.replace(fold=1).utcoffset() != local.utcoffset()
    if gap and instant.astimezone(ZoneInfo(zone)).date() < day:
        return instant + timedelta(hours=1)
    return instant
