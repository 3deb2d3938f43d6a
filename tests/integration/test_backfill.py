"""A backfill in Dagster's web interface, with its daemon and queue on PostgreSQL (rules 17 and 20)."""

from pathlib import Path
from typing import Any

import pytest

from tally.domain.period import BillingPeriod
from tests.conftest import temporary_home
from tests.integration.closing import House, instance
from tests.integration.dagster_web import dagster_up, eventually

MARCH, APRIL = "2026-03", "2026-04"


def done(runs: list[dict[str, Any]]) -> bool:
    months = {run["tags"].get("dagster/partition") for run in runs if run["endTime"]}
    return months == {MARCH, APRIL}


@pytest.mark.drill
def test_a_backfill_corrects_finalized_months_and_replaces_open_ones(
    house: House, dagster_url: str, tmp_path: Path
) -> None:
    """No special path: the same button corrects March and closes April again, one after the other, each to the end."""
    House(house.reporting_url, house.metering_url, BillingPeriod.parse(APRIL)).close()
    assert house.launch("finalize_month").success
    house.ingest(instance("late", "03-20T12:00:00", "delete.end", "i-2", project_id="p-2"))
    with temporary_home() as home, dagster_up(house.environment(home, dagster_url), tmp_path / "up.log") as web:
        assert ["finalized_period"] not in web.materializable()
        # The sensor of late events runs from the start: it tells what is late before anybody corrects it.
        told = eventually(lambda: web.told("late_events", "finalized_period", "nothing_is_late"))
        assert [verdict["success"] for verdict in told] == [False]
        assert told[0]["description"].startswith("2026-03: 1 late event(s); look at it: tally late 2026-03")
        backfill = web.backfill(MARCH, APRIL)
        eventually(lambda: done(web.runs(dagster_backfill=backfill)))
        runs = {run["tags"]["dagster/partition"]: run for run in web.runs(dagster_backfill=backfill)}
        usage = web.verdicts("usage", "no_gap")
    assert {run["status"] for run in runs.values()} == {"SUCCESS"}
    assert {month: run["tags"]["tally/kind"] for month, run in runs.items()} == {MARCH: "correction", APRIL: "close"}
    first, second = sorted(runs.values(), key=lambda run: run["startTime"])
    assert first["endTime"] <= second["startTime"]  # the pool lets one in
    assert {verdict["partition"] for verdict in usage} == {MARCH, APRIL}
    assert house.query(
        "select period, kind, status, scope from ledger.runs where status <> 'failed' order by period, load_id"
    ) == [
        (MARCH, "regular", "finalized", "all"),
        (MARCH, "correction", "finalized", "changed"),
        (APRIL, "regular", "superseded", "all"),
        (APRIL, "regular", "completed", "all"),
    ]
    assert house.query(
        "select distinct r.sign from ledger.rated_records as r inner join ledger.runs as run on run.id = r.run_id"
        " where run.kind = 'correction' order by 1"
    ) == [(-1,), (1,)]
