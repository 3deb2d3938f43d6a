"""What samples add up to (rule 15), compared with the definition for random series, resets and replicas."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.samples import (
    REPLICA_TIMEOUT_MS,
    Gap,
    Increment,
    Sample,
    deduplicate,
    from_milliseconds,
    gaps,
    increments,
    to_milliseconds,
)

MINUTE = 60_000
GIGA = Decimal("1e-9")


def series(*values: float | str, start: int = 0, step: int = MINUTE) -> list[Sample]:
    """Samples a minute apart."""
    return [Sample(start + n * step, Decimal(str(value))) for n, value in enumerate(values)]


def gained(samples: Sequence[Sample], after: int, until: int) -> Fraction:
    """The definition: of each two neighbours whose later one lies in (after, until], what the later one shows more."""
    total = Fraction(0)
    for place in range(1, len(samples)):
        former, later = samples[place - 1], samples[place]
        if after < later.at_ms <= until:
            fell = later.value < former.value
            total += Fraction(later.value) - (0 if fell else Fraction(former.value))
    return total


# Any non-negative double, as its shortest decimal: what VictoriaMetrics can hold.
VALUES = st.floats(min_value=0, allow_nan=False, allow_infinity=False).map(lambda value: Decimal(repr(value)))
INSTANTS = st.integers(min_value=0, max_value=10**13)
SERIES = st.dictionaries(INSTANTS, VALUES, max_size=30).map(
    lambda values: [Sample(at, value) for at, value in sorted(values.items())]
)
UNITS = st.sampled_from([Decimal(1), GIGA, Decimal("9.31322574615478515625E-10"), Decimal(3600)])


@given(SERIES, UNITS, st.lists(INSTANTS, max_size=5))
def test_sums_over_splits_are_exact_and_equal_the_whole(samples: list[Sample], unit: Decimal, cuts: list[int]) -> None:
    """However a span is split, the parts are what the definition says of each, and add up to what it says of all."""
    found = [increment for increment in increments(samples, unit) if increment.since_ms is not None]
    edges = [-1, *sorted(cuts), 10**13]
    parts = [
        sum((Fraction(i.quantity) for i in found if after < i.at_ms <= until), Fraction(0))
        for after, until in pairwise(edges)
    ]
    expected = [gained(samples, after, until) * Fraction(unit) for after, until in pairwise(edges)]
    assert parts == expected
    assert sum(parts) == gained(samples, -1, 10**13) * Fraction(unit)


@given(SERIES, UNITS)
def test_no_increment_is_negative_or_empty(samples: list[Sample], unit: Decimal) -> None:
    """S37: a counter that falls was reset; it never takes usage back."""
    assert all(increment.quantity > 0 for increment in increments(samples, unit))


def test_a_reset_counts_from_zero() -> None:
    """900, then 100: 100 more; and 0.3 - 0.1 is 0.2, not 0.19999999999999998."""
    assert increments(series(0, 900, 100), Decimal(1)) == [Increment(0, 60_000, Decimal(900)),
                                                           Increment(60_000, 120_000, Decimal(100))]  # fmt: skip
    assert increments(series("0.1", "0.3"), Decimal(1))[1].quantity == Decimal("0.2")


def test_the_first_sample_comes_without_a_former_one() -> None:
    """All that it shows, for whoever knows that the counter began at zero."""
    assert increments(series(5_000_000_000, 5_000_000_000), GIGA) == [Increment(None, 0, Decimal(5))]
    assert increments([], GIGA) == []


# What a true counter shows at each minute; replicas read it with clocks of their own, and not always.
STEPS = st.lists(st.integers(0, 5), min_size=5, max_size=80)
REPLICAS = st.lists(
    st.tuples(st.integers(0, 59), st.integers(-2, 2), st.sets(st.integers(0, 80))), min_size=1, max_size=3
)


def read_by(counter: Sequence[int], second: int, skew: int, missed: set[int]) -> list[Sample]:
    """A replica that reads at this second of each minute, with a clock that is some seconds wrong."""
    return [
        Sample((minute * 60 + second + skew + 10) * 1000, Decimal(counter[minute]))
        for minute in range(len(counter))
        if minute not in missed
    ]


@given(STEPS, REPLICAS)
def test_replicas_never_count_twice(steps: list[int], replicas: list[tuple[int, int, set[int]]]) -> None:
    """A counter that only grows never falls in the one series, whatever the clocks of its replicas."""
    counter = [sum(steps[:place]) for place in range(1, len(steps) + 1)]
    lines = [read_by(counter, *replica) for replica in replicas]
    one = deduplicate(lines)
    assert [sample.value for sample in one] == sorted(sample.value for sample in one)
    assert set(one) <= {sample for line in lines for sample in line}
    assert one == deduplicate(list(reversed(lines)))
    if one:
        total = sum(increment.quantity for increment in increments(one, Decimal(1)) if increment.since_ms is not None)
        assert total == one[-1].value - one[0].value


@given(STEPS, REPLICAS)
def test_replicas_leave_no_hole_that_one_of_them_fills(
    steps: list[int], replicas: list[tuple[int, int, set[int]]]
) -> None:
    """Between two samples of the one series there are none of any replica but in the five minutes after the first."""
    lines = [read_by(steps, *replica) for replica in replicas]
    one = deduplicate(lines)
    for former, later in pairwise(one):
        between = [s for line in lines for s in line if former.at_ms + REPLICA_TIMEOUT_MS < s.at_ms < later.at_ms]
        assert between == []


def test_a_replica_is_followed_until_it_is_silent() -> None:
    """Five minutes are waited for it; then another one goes on, and its resets count."""
    first = series(10, 20, 30)
    second = series(10, 20, 31, 41, 51, 61, 71, 81, 91, 5, start=1000)
    one = deduplicate([second, first])
    assert [sample.value for sample in one] == [10, 20, 30, 81, 91, 5]
    assert sum(increment.quantity for increment in increments(one, Decimal(1))) == 96


def test_of_two_samples_at_one_instant_the_greater_counts() -> None:
    """Written twice, or by two that both take themselves for the only one."""
    assert deduplicate([[Sample(0, Decimal(3)), Sample(0, Decimal(5)), Sample(0, Decimal(3))]]) == [
        Sample(0, Decimal(5))
    ]
    assert deduplicate([]) == deduplicate([[], []]) == []


def test_a_gap_is_longer_than_it_may_be() -> None:
    """An hour where an hour may be is none."""
    hourly = series(1, 2, 3, step=3_600_000)
    assert gaps(hourly, timedelta(hours=1)) == []
    assert gaps([*hourly, Sample(10_800_001, Decimal(3))], timedelta(hours=1)) == [Gap(7_200_000, 10_800_001)]


@pytest.mark.parametrize(
    ("instant", "milliseconds"),
    [
        (datetime(2026, 3, 1, tzinfo=UTC), 1_772_323_200_000),
        (datetime(2026, 3, 1, 0, 0, 0, 1, tzinfo=UTC), 1_772_323_200_001),
        (datetime(2026, 3, 1, 0, 0, 0, 1000, tzinfo=UTC), 1_772_323_200_001),
    ],
)
def test_milliseconds_begin_at_or_after_an_instant(instant: datetime, milliseconds: int) -> None:
    """So that the last sample before it stays before it."""
    assert to_milliseconds(instant) == milliseconds
    assert instant <= from_milliseconds(milliseconds) < instant + timedelta(milliseconds=1)
