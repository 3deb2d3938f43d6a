"""Billing periods tile time in every zone: no instant is in two months, and none in no month (rule 13)."""

from datetime import UTC, datetime, timedelta
from itertools import accumulate, repeat
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tally.domain.errors import InvalidInput
from tally.domain.period import BillingPeriod
from tally.services.due import current_period

MICROSECOND = timedelta(microseconds=1)

zones = st.sampled_from(sorted(available_timezones()))
months = st.builds(BillingPeriod, st.integers(1971, 2100), st.integers(1, 12), zones)
instants = st.integers(0, 4_102_444_800_000_000).map(lambda us: datetime(1971, 1, 2, tzinfo=UTC) + us * MICROSECOND)


@given(months)
@example(BillingPeriod(1995, 1, "Pacific/Kiritimati"))  # it crossed the date line that night
@example(BillingPeriod(2018, 11, "America/Sao_Paulo"))
def test_a_month_begins_with_the_first_instant_that_its_calendar_calls_so(month: BillingPeriod) -> None:
    """Whatever the clocks of the zone do at midnight; and it ends where the next one begins."""
    zone = ZoneInfo(month.zone)
    assert (month.start - MICROSECOND).astimezone(zone).date() < month.first_day
    assert month.start.astimezone(zone).date() >= month.first_day
    assert month.end == month.next.start


@given(instants, zones)
def test_an_instant_is_in_one_month(instant: datetime, zone: str) -> None:
    """The month of its local calendar, and in neither of its neighbours."""
    month = current_period(instant, zone)
    assert month.start <= instant < month.end
    assert not month.next.start <= instant


@pytest.mark.parametrize(
    ("month", "zone", "minutes"),
    [
        ("2026-03", "UTC", 44_640),
        ("2026-03", "Europe/Berlin", 44_580),
        ("2026-10", "Europe/Berlin", 44_700),
        ("2026-04", "UTC", 43_200),
        ("2027-02", "UTC", 40_320),
        ("2028-02", "UTC", 41_760),
        ("2100-02", "UTC", 40_320),
        ("2026-04", "Australia/Lord_Howe", 43_230),  # its clocks go back by half an hour
    ],
)
def test_months_are_as_long_as_they_are(month: str, zone: str, minutes: int) -> None:
    """S26, S27: leap years and changes of the clock; never a number of days times 24 hours."""
    assert BillingPeriod.parse(month, zone).length_us == minutes * 60_000_000


@given(zones, st.integers(1971, 2100))
def test_twelve_months_are_the_year(zone: str, year: int) -> None:
    """S27: there is no thirteenth month of an hour, and no hour is missing."""
    *_, december = accumulate(repeat(None, 11), lambda month, _: month.next, initial=BillingPeriod(year, 1, zone))
    assert str(december) == f"{year}-12"
    whole = sum(BillingPeriod(year, number, zone).length_us for number in range(1, 13)) * MICROSECOND
    assert BillingPeriod(year, 1, zone).start + whole == BillingPeriod(year + 1, 1, zone).start


@pytest.mark.parametrize("text", ["2026-13", "2026-3", "2026-00", "1969-12", "9999-01", "2026-03-01", "\u0662026-03"])
def test_what_is_no_month_is_refused(text: str) -> None:
    """A month is written 2026-03."""
    with pytest.raises(InvalidInput, match="not a billing period"):
        BillingPeriod.parse(text)
