"""Billing periods in other zones than UTC, metered (rules 13 and 14)."""

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from tally.domain.errors import Refused
from tally.domain.period import BillingPeriod
from tally.services import runs
from tally.store.database import Connection
from tests.integration.metering_sql import meter
from tests.integration.sending import send, volume

NOW = datetime(2028, 5, 1, tzinfo=UTC)


def at(timestamp: str, event_id: str, event_type: str, size_gb: int) -> dict[str, Any]:
    """An event of the one volume at an instant."""
    return volume(event_id, "01T00:00:00", event_type, size_gb) | {"timestamp": timestamp}


def metered_minutes(reporting: Connection, metering: Connection, period: str, zone: str) -> list[Decimal]:
    """Minutes of each usage record of a month in a zone."""
    run = meter(reporting, metering, period, zone, clock=lambda: NOW, select="+int_usage_records")
    runs.fail(metering, run.id, "of no further interest")
    rows = metering.execute("select (usage ->> 'minutes')::numeric from metering.int_usage_records order by from_ts")
    return [row[0] for row in rows.fetchall()]


def test_months_have_the_length_that_the_clocks_of_their_zone_give_them(
    reporting: Connection, metering: Connection
) -> None:
    """S27, rules 13 and 14: Berlin's March lacks an hour, its October has one more; February 2028 is a leap month."""
    send(reporting, at("2020-01-01T00:00:00Z", "a", "volume.create.end", 10))
    assert metered_minutes(reporting, metering, "2026-03", "UTC") == [44_640]
    assert metered_minutes(reporting, metering, "2026-03", "Europe/Berlin") == [44_580]
    assert metered_minutes(reporting, metering, "2026-10", "Europe/Berlin") == [44_700]
    assert metered_minutes(reporting, metering, "2028-02", "UTC") == [41_760]


def test_an_instant_belongs_to_the_month_of_the_zone(reporting: Connection, metering: Connection) -> None:
    """S28, rule 13: 05:00 UTC on the first of April is still March in Los Angeles; the two months meet at 07:00."""
    send(
        reporting,
        at("2026-03-31T07:00:00Z", "a", "volume.create.end", 10),
        at("2026-04-01T05:00:00Z", "b", "volume.resize.end", 20),
        at("2026-04-01T08:00:00Z", "c", "volume.delete.end", 20),
    )
    assert metered_minutes(reporting, metering, "2026-03", "America/Los_Angeles") == [22 * 60, 2 * 60]
    assert metered_minutes(reporting, metering, "2026-04", "America/Los_Angeles") == [60]


def test_the_zone_is_settled_once_a_period_is_finalized(reporting: Connection, metering: Connection) -> None:
    """Rule 13: another zone would shift the edges of what has been billed."""
    run = meter(reporting, metering, "2026-03", "UTC", select="stg_runs")
    metering.execute(
        "update ledger.runs set status = 'finalized', finalized_at = now() where id = %s", [run.id]
    )
    with pytest.raises(Refused, match="zone UTC"):
        runs.start(reporting, metering, BillingPeriod.parse("2026-04", "Europe/Berlin"), lambda: NOW)


def test_a_month_that_has_not_ended_is_metered_up_to_its_snapshot(reporting: Connection, metering: Connection) -> None:
    """Rule 13: month to date is preliminary, and clips at the instant at which the load began."""
    send(reporting, at("2026-03-01T00:00:00Z", "a", "volume.create.end", 10))
    snapshot = datetime(2026, 3, 10, 12, tzinfo=UTC)
    run = meter(reporting, metering, "2026-03", clock=lambda: snapshot, select="+int_usage_records")
    assert run.preliminary
    assert run.metered_to == snapshot
    assert metering.execute("select from_ts, to_ts from metering.int_usage_records").fetchall() == [
        (datetime(2026, 3, 1, tzinfo=UTC), snapshot)
    ]
