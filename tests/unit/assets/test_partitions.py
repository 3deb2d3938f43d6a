"""Partitions are the months of the installation's zone."""

import runpy

import pytest
from dagster import MonthlyPartitionsDefinition, build_schedule_context, partition_loading_context

from tally.domain.instants import parse_instant
from tally.services.due import current_period
from tally_dagster.schedules import month_to_date
from tests.conftest import REPOSITORY


def months(zone: str, patch: pytest.MonkeyPatch) -> MonthlyPartitionsDefinition:
    """The partitions as Dagster finds them where TALLY_ZONE is a zone."""
    patch.setenv("TALLY_ZONE", zone)
    found = runpy.run_path(str(REPOSITORY / "assets/partitions.py"))["MONTHS"]
    assert isinstance(found, MonthlyPartitionsDefinition)
    return found


@pytest.mark.parametrize(
    ("zone", "before", "begun"),
    [
        ("UTC", "2026-03-31T23:59:59Z", "2026-04-01T00:00:00Z"),
        ("Asia/Tokyo", "2026-03-31T14:59:59Z", "2026-03-31T15:00:00Z"),
        ("Europe/Berlin", "2026-03-31T21:59:59Z", "2026-03-31T22:00:00Z"),
        ("America/New_York", "2026-04-01T03:59:59Z", "2026-04-01T04:00:00Z"),
    ],
)
def test_a_month_has_its_partition_from_its_first_instant(
    zone: str, before: str, begun: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not before: what has not begun cannot be metered."""
    partitions = months(zone, monkeypatch)
    for instant, month in ((before, "2026-03"), (begun, "2026-04")):
        now = parse_instant(instant)
        with partition_loading_context(effective_dt=now):
            assert partitions.get_last_partition_key() == str(current_period(now, zone)) == month


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "America/Asuncion", "America/Havana", "Pacific/Kiritimati"])
def test_the_keys_are_the_same_in_every_zone(zone: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In Asuncion there was no midnight on 1 October 2023, in Havana there were two on 1 November 2020."""
    with partition_loading_context(effective_dt=parse_instant("2026-03-15T00:00:00Z")):
        keys = months(zone, monkeypatch).get_partition_keys()
    assert list(keys) == [f"{year}-{month:02}" for year in range(2020, 2027) for month in range(1, 13)][: len(keys)]
    assert keys[-1] == "2026-03"


def test_what_the_schedule_asks_for_on_the_first_morning_of_a_month_has_a_partition(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Six o'clock in Tokyo is the evening before in UTC."""
    partitions = months("Asia/Tokyo", monkeypatch)
    morning = parse_instant("2026-03-31T21:00:00Z")
    request = month_to_date()(build_schedule_context(scheduled_execution_time=morning))
    with partition_loading_context(effective_dt=morning):
        assert partitions.has_partition_key(request.partition_key)
