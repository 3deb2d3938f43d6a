"""Reading and writing instants: one instant, however it is spelled (rule 2)."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant, parse_instant

moments = st.datetimes(datetime(1, 1, 3), datetime(9999, 12, 29), timezones=st.just(UTC))  # noqa: DTZ001
zones = st.integers(-23 * 60 - 59, 23 * 60 + 59).map(lambda minutes: timezone(timedelta(minutes=minutes)))


@given(moments)
def test_what_is_written_is_read_again(moment: datetime) -> None:
    """To the microsecond, and in UTC itself."""
    read = parse_instant(format_instant(moment))
    assert read == moment
    assert read.tzinfo is UTC


@given(moments, zones, st.sampled_from(["T", " "]), st.sampled_from([".", ","]), st.text("0123456789", max_size=12))
def test_every_spelling_of_an_instant_is_the_same(
    moment: datetime, zone: timezone, between: str, point: str, beyond: str
) -> None:
    """Zones, separators and digits beyond the microsecond make no difference."""
    local = moment.astimezone(zone)
    text = f"{local:%H:%M:%S}{point}{local.microsecond:06}{beyond}{local.isoformat()[-6:]}"
    assert parse_instant(f"{local.year:04}-{local:%m-%d}{between}{text}") == moment


@pytest.mark.parametrize(
    ("text", "microsecond"),
    [
        ("2026-03-01T00:00:00Z", 0),
        ("2026-03-01T00:00:00z", 0),
        ("2026-03-01T00:00Z", 0),
        ("2026-03-01T00:00:00.5Z", 500_000),
        ("2026-03-01T00:00:00.123Z", 123_000),
        ("2026-03-01T00:00:00.123456Z", 123_456),
        ("2026-03-01T00:00:00.123456999Z", 123_456),
        ("2026-03-01T00:00:00.123+0000", 123_000),
    ],
)
def test_fractions_are_read_digit_by_digit(text: str, microsecond: int) -> None:
    """Of one digit or of nine; what is beyond the microsecond is cut off, not rounded."""
    assert parse_instant(text) == datetime(2026, 3, 1, microsecond=microsecond, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T00:00:00",
        "2026-03-01",
        "20260301T000000Z",
        "2026-W10-1T00:00:00Z",
        "2026-02-30T00:00:00Z",
        "2026-03-01T25:00:00Z",
        "2026-03-01T00:00:61Z",
        "2026-03-01T00:00:00.Z",
        "2026-03-01T00:00:00.123456Z ",
        "2026-03-01T00:00:00Z\n",
        "٢٠٢٦-03-01T00:00:00Z",
        "0000-03-01T00:00:00Z",
        "0001-01-01T00:00:00+01:00",
    ],
)
def test_what_is_no_instant_is_refused(text: str) -> None:
    """Without a zone, in another form, or not in the calendar."""
    with pytest.raises(InvalidInput):
        parse_instant(text)
