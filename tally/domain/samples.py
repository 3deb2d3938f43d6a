"""What samples of a counter add up to (rule 15): replicas made one series, its increments, and its gaps.

Pure: how samples are fetched and where they are kept does not belong here, nor do intervals, to which dbt brings the
increments. Instants are milliseconds since 1970 in UTC, as VictoriaMetrics keeps them; values are exact decimals.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal, Inexact, localcontext
from itertools import pairwise
from typing import NamedTuple

# After so long without a sample, a replica is taken for silent: Prometheus takes a series for stale then.
REPLICA_TIMEOUT_MS = 5 * 60 * 1000

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
# The difference of any two binary floats, times any unit that is taken, has fewer digits.
_EXACT = Context(prec=1200, traps=[Inexact])


class Line(NamedTuple):
    """Some samples of one series, in the order of time."""

    labels: Mapping[str, str]
    at_ms: list[int]
    values: list[int | Decimal]


class Sample(NamedTuple):
    """What a counter showed at an instant."""

    at_ms: int
    value: Decimal


class Increment(NamedTuple):
    """What a counter gained up to an instant. ``since_ms`` is None for the first sample: as if it had begun at zero."""

    since_ms: int | None
    at_ms: int
    quantity: Decimal


class Gap(NamedTuple):
    """Two neighbouring samples that are too far apart."""

    from_ms: int
    to_ms: int


def deduplicate(replicas: Sequence[Sequence[Sample]]) -> list[Sample]:
    """One series from the samples of its replicas, in the order of time.

    One replica is followed, at first the one that begins first, as long as it goes on. When it is silent for longer
    than five minutes, the next sample is the first one of any replica after these: two clocks that differ by less never
    make a counter seem to fall. Of two samples at one instant the greater one counts.
    """
    lines = [line for line in map(_by_instant, replicas) if line]
    if len(lines) > 1:
        return list(_followed(sorted(lines)))
    return lines[0] if lines else []


def increments(samples: Sequence[Sample], unit: Decimal) -> list[Increment]:
    """What a series gained from each sample to the next, where it gained anything; after a reset, from zero.

    The first sample comes first, with all that it shows: whether that counts depends on when the resource was created.
    """
    if not samples:
        return []
    with localcontext(_EXACT):
        first = Increment(None, samples[0].at_ms, samples[0].value * unit)
        later = (
            Increment(former.at_ms, sample.at_ms, _gain(former.value, sample.value) * unit)
            for former, sample in pairwise(samples)
        )
        return [increment for increment in (first, *later) if increment.quantity]


def gaps(samples: Sequence[Sample], max_gap: timedelta) -> list[Gap]:
    """The spans between neighbouring samples that are longer than ``max_gap``."""
    longest = max_gap // _MILLISECOND
    return [
        Gap(former.at_ms, sample.at_ms)
        for former, sample in pairwise(samples)
        if sample.at_ms - former.at_ms > longest
    ]


def from_milliseconds(at_ms: int) -> datetime:
    """The instant of a sample."""
    return _EPOCH + at_ms * _MILLISECOND


def to_milliseconds(instant: datetime) -> int:
    """The first whole millisecond at or after an instant."""
    return -((_EPOCH - instant) // _MILLISECOND)


def _gain(former: Decimal, value: Decimal) -> Decimal:
    return value - former if value >= former else value


def _by_instant(samples: Sequence[Sample]) -> list[Sample]:
    greatest: dict[int, Sample] = {}
    for sample in sorted(samples):
        greatest[sample.at_ms] = sample
    return list(greatest.values())


def _followed(lines: Sequence[Sequence[Sample]]) -> Iterator[Sample]:
    """Samples of the replica that is followed, and of the next one when it falls silent; lines are in order."""
    places = [0] * len(lines)
    followed, last = 0, lines[0][0]
    yield last
    while True:
        own = _first_from(lines[followed], places, followed, last.at_ms + 1)
        if own is None or own.at_ms - last.at_ms > REPLICA_TIMEOUT_MS:
            heard = [
                (sample, line != followed, line)
                for line in range(len(lines))
                if (sample := _first_from(lines[line], places, line, last.at_ms + REPLICA_TIMEOUT_MS + 1)) is not None
            ]
            if not heard:
                return
            own, _, followed = min(heard, key=lambda found: (found[0].at_ms, found[1:]))
        last = own
        yield last


def _first_from(line: Sequence[Sample], places: list[int], number: int, at_ms: int) -> Sample | None:
    """The first sample of a line at or after an instant, which never goes back."""
    place = places[number]
    while place < len(line) and line[place].at_ms < at_ms:
        place += 1
    places[number] = place
    return line[place] if place < len(line) else None
