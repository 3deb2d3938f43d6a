"""How far what is billed has drifted from what is exact (rule 23)."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from tally.store.database import Connection
from tally.store.metering.drift import write_drift
from tests.integration.ledger_by_hand import Usage, begin_run, bill, write_usage

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
FIVE_MINUTES = timedelta(minutes=5)
LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80}


def server(project: str, begin: datetime, length: timedelta) -> Usage:
    """A record of an m1.large."""
    return Usage(f"os/{project}", "openstack", "instance", f"i-{project}", LARGE, "active", begin, begin + length)


def drifts(metering: Connection, run_id: object) -> list[tuple[str, str, Decimal]]:
    """The findings of a run: (project, detail, money at risk)."""
    return metering.execute(
        "select subject, detail, at_risk from ledger.findings where run_id = %s and kind = 'rounding_drift'", [run_id]
    ).fetchall()


def test_a_month_of_five_minutes_is_billed_a_fifth_more_and_that_is_told(metering: Connection) -> None:
    """S49: 8,928 records come to 178.56 by the rule, exactly 148.80. A month in one record does not drift.

    Neither do a few records of a project that costs next to nothing. A correction tells it again only of the projects
    that it concerns, together with what counts already.
    """
    run = begin_run(metering)
    flapping = [server("flapping", MARCH + n * FIVE_MINUTES, FIVE_MINUTES) for n in range(8928)]
    few = [server("few", MARCH + n * FIVE_MINUTES, FIVE_MINUTES) for n in range(3)]
    write_usage(metering, run, [*flapping, *few, server("steady", MARCH, timedelta(days=31))])
    assert write_drift(metering, run.id) == 1
    told = "billed 178.56 EUR, exactly 148.8: rounding came to 29.76"
    assert drifts(metering, run.id) == [("flapping", told, Decimal("29.76"))]
    assert write_drift(metering, run.id) == 0, "what is told is not told twice"
    bill(metering, run)
    correction = begin_run(metering, 2, run)
    write_usage(metering, correction, [server("few", MARCH + n * FIVE_MINUTES, FIVE_MINUTES) for n in range(3, 18)])
    write_drift(metering, correction.id, [run.id])
    assert drifts(metering, correction.id) == [
        ("few", "billed 0.36 EUR, exactly 0.3: rounding came to 0.06", Decimal("0.06"))
    ]
