"""A source of sampled counters: where a counter of a resource type is found, and what its units are worth (rule 15).

Pure: reading the file of sources and fetching samples does not belong here; what samples add up to is samples.py's.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from tally.domain.errors import InvalidInput

_MAX_UNIT_DIGITS = 60


@dataclass(frozen=True, slots=True)
class CounterSource:
    """Where one counter of one resource type is found, and what one of its units is worth."""

    name: str
    platform: str
    resource_type: str
    metric: str                      # the name in usage, such as egress_gb
    selector: str                    # of MetricsQL; it picks series that are counters
    clouds: tuple[str, ...]          # where samples are expected: they fail with the source
    resource_label: str              # the label that holds the resource's id
    unit: Decimal                    # so much of the metric is one unit of the counter
    cloud_label: str | None = None   # the label that holds the cloud; None if there is only one cloud
    replica_labels: tuple[str, ...] = ()   # labels that tell replicas of one series apart
    states: tuple[str, ...] | None = None  # of a resource, in which samples are expected; None: in every state
    max_gap: timedelta | None = None       # the longest span without a sample; None: that of the installation


def parse_unit(text: str) -> Decimal:
    """Read a positive factor such as 1/1000000000 or 0.001.

    Raises:
        InvalidInput: if it is none, or no decimal of at most 60 digits is the same number.
    """
    try:
        unit = Fraction(text) if len(text) <= _MAX_UNIT_DIGITS * 2 and "e" not in text.lower() else Fraction(0)
    except (ValueError, ZeroDivisionError):
        unit = Fraction(0)
    if unit <= 0:
        raise InvalidInput(f"{text[:40]!r} is no positive factor such as 1/1000000000 or 0.001")
    for digits in range(_MAX_UNIT_DIGITS + 1):
        scaled = unit * 10**digits
        if scaled.denominator == 1:
            return Decimal(f"{scaled.numerator}E-{digits}")
    raise InvalidInput(f"{text[:40]} is no decimal of at most {_MAX_UNIT_DIGITS} digits, so that it would be rounded")


def windows(start: datetime, end: datetime) -> Iterator[tuple[datetime, datetime]]:
    """The days in UTC of a half-open span, the first and the last of them cut: what is fetched at once."""
    while start < end:
        midnight = start.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
        yield start, min(midnight, end)
        start = midnight


def series_key(labels: Mapping[str, str], replica_labels: Sequence[str]) -> tuple[str, str]:
    """Which series and which replica of it some labels name, as texts that are equal only for equal labels."""
    own = sorted((name, value) for name, value in labels.items() if name not in replica_labels)
    replica = sorted((name, value) for name, value in labels.items() if name in replica_labels)
    return repr(own), repr(replica)
