"""The job close_month on a real database: what it writes, what stops it, and what several of it come to (S52, S53)."""

import os
import subprocess
import sys
from contextlib import ExitStack
from decimal import Decimal

import pytest

from tally.domain.errors import NotFound
from tally.services import runs
from tally.services.runs import REQUIRED_CHECKS
from tally.store.database import connected
from tally.store.metering.runs import METERING_LOCK
from tests.conftest import REPOSITORY, temporary_home
from tests.integration.closing import PERIOD, House, failed_steps, statuses, violated

COSTS = "select dimension, sum(amount), sum(amount_exact) from ledger.rated_records group by 1 order by 1"
RECORDS = """
    select resource_id, state, from_ts, to_ts, usage::text from ledger.usage_records
    where run_id in (select id from ledger.runs where status in ('completed', 'finalized'))
    order by resource_id, from_ts"""


def test_a_closed_month_has_one_live_run_with_every_check_passed(house: House) -> None:
    """Rule 16: a run is complete only with a verdict on each invariant; its inputs and outputs are hashed (rule 21)."""
    with connected(house.metering_url) as metering:
        assert statuses(metering) == ["completed"]
    assert {name for (name,) in house.query("select name from ledger.checks where passed")} == REQUIRED_CHECKS
    ((inputs_hash, outputs_hash),) = house.query("select inputs_hash, outputs_hash from ledger.runs")
    assert (len(inputs_hash), len(outputs_hash)) == (64, 64)


def test_the_costs_of_the_small_month_are_those_of_a_calculator(house: House) -> None:
    """Rule 23: 2 vcpus to 11 March 16:00, 4 to the 20th 10:30, then half price until the 25th."""
    minutes = house.query(
        "select resource_id, sum((usage ->> 'minutes')::numeric) from ledger.usage_records group by 1 order by 1"
    )
    assert minutes == [("i-1", Decimal(24 * 24 * 60)), ("i-2", Decimal(27 * 24 * 60))]
    (vcpus,) = house.query(
        """select array_agg(r.amount order by u.from_ts) from ledger.rated_records as r
           inner join ledger.usage_records as u on u.id = r.usage_record_id
           where r.resource_id = 'i-1' and r.dimension = 'vcpus'"""
    )
    # 256 h x 2 x 0.02; 210.5 h x 4 x 0.02; 109.5 h x 4 x 0.02 x 0.5
    assert vcpus == ([Decimal("10.24"), Decimal("16.84"), Decimal("4.38")],)


def test_marts_hold_what_the_live_run_holds(house: House) -> None:
    """Analysts read sums of the ledger: the same amounts, gauges weighed by hours, minutes of existence."""
    assert house.query("select sum(amount), sum(amount_exact) from marts.project_costs_monthly") == house.query(
        "select sum(amount), sum(amount_exact) from ledger.rated_records"
    )
    assert house.query(
        "select project_id, metric, quantity from marts.project_usage_monthly"
        " where project_id = 'p-2' and metric in ('vcpus', 'minutes') order by metric"
    ) == [("p-2", "minutes", Decimal(27 * 24 * 60)), ("p-2", "vcpus", Decimal(27 * 24 * 2))]


def test_closing_three_times_leaves_the_same_rows_and_two_superseded_runs(house: House) -> None:
    """S52, rule 17: a re-run replaces the former one in one transaction; nothing doubles, nor in the marts."""
    records, costs = house.query(RECORDS), house.query(COSTS)
    marts = house.query("select project_id, metric, quantity from marts.project_usage_monthly order by 1, 2")
    hashes = house.query("select outputs_hash from ledger.runs")
    house.close()
    house.close()
    with connected(house.metering_url) as metering:
        assert statuses(metering) == ["superseded", "superseded", "completed"]
    assert house.query(RECORDS) == records
    assert house.query(COSTS) == costs
    assert house.query("select project_id, metric, quantity from marts.project_usage_monthly order by 1, 2") == marts
    assert house.query("select distinct outputs_hash from ledger.runs") == hashes
    assert house.query("select distinct run_id from ledger.bills") == house.query(
        "select id from ledger.runs where status = 'completed'"
    )


def test_a_projection_that_lies_aborts_the_run_and_leaves_the_former_one_live(house: House) -> None:
    """Rule 16: a violation names check and row, nothing of the run stays in the ledger, the lock is released."""
    records = house.query(RECORDS)
    with connected(house.reporting_url) as reporting:
        reporting.execute("""update reporting.current_resources set size = '{"vcpus": 99}' where resource_id = 'i-2'""")
    result = house.launch()
    assert failed_steps(result) == ["check_usage"]
    assert violated(result).keys() == {"projection_matches_timelines"}
    assert "i-2" in violated(result)["projection_matches_timelines"]
    assert "rebuild the projection" in violated(result)["projection_matches_timelines"]
    with connected(house.metering_url) as metering:
        assert statuses(metering) == ["completed", "failed"]
        assert metering.execute("select pg_try_advisory_lock(%s)", [METERING_LOCK]).fetchone() == (True,)
        with pytest.raises(NotFound):
            runs.running(metering, PERIOD)
    ((failure,),) = house.query("select failure from ledger.runs where status = 'failed'")
    assert failure.startswith("check projection_matches_timelines: os-prod-eu1 instance i-2")
    assert house.query(RECORDS) == records
    for table in ("usage_records", "rated_records", "bills", "attributions", "findings"):
        assert house.query(
            f"select count(*) from ledger.{table} as t inner join ledger.runs as r on r.id = t.run_id"
            " where r.status = 'failed'"
        ) == [(0,)]


def test_a_model_that_fails_fails_the_run_with_the_reason(house: House) -> None:
    """Whatever goes wrong on the way ends the run of the period: it does not stay in the making."""
    with connected(house.metering_url) as metering:
        metering.execute("drop table metering.int_usage_increments; create sequence metering.int_usage_increments")
    result = house.launch()
    assert failed_steps(result) == ["derive_usage"]
    ((status, failure),) = house.query("select status, failure from ledger.runs order by started_at desc limit 1")
    assert status == "failed"
    assert "int_usage_increments" in failure


def test_a_running_month_is_closed_up_to_the_snapshot(house: House) -> None:
    """Rule 13: a run of a month that has not ended clips at the instant of its snapshot and is preliminary."""
    house.close(now="2026-03-10T00:00:00Z")
    assert house.query(
        "select preliminary, metered_to = '2026-03-10T00:00:00Z' from ledger.runs where status = 'completed'"
    ) == [(True, True)]
    assert house.query("select max(to_ts) = '2026-03-10T00:00:00Z' from ledger.usage_records") == [(True,)]


@pytest.mark.slow
def test_of_two_closes_at_once_one_waits_and_both_come_to_the_same(house: House) -> None:
    """S53: the metering lock is held from the load to the end; the second run replaces the first with the same sums."""
    records, costs = house.query(RECORDS), house.query(COSTS)
    with temporary_home() as home, ExitStack() as stack:
        (home / "dagster").mkdir()
        (home / "dagster" / "dagster.yaml").write_text("telemetry: {enabled: false}\n")
        environment = os.environ | {
            "TALLY_HOME": os.environ["TALLY_HOME"],
            "DAGSTER_HOME": str(home / "dagster"),
            "TALLY_REPORTING_URL": house.reporting_url,
            "TALLY_METERING_URL": house.metering_url,
        }
        command = [sys.executable, "-m", "tally_dagster.launch", "close_month", str(PERIOD), "--actor", "test"]
        processes = [
            stack.enter_context(
                subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True)
            )
            for _ in range(2)
        ]
        outputs = [process.communicate()[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    with connected(house.metering_url) as metering:
        assert statuses(metering) == ["superseded", "superseded", "completed"]
    (apart,) = house.query(
        """select bool_and(completed_at <= next_started_at) from (
               select completed_at, lead(started_at) over (order by started_at) as next_started_at
               from ledger.runs) as runs where next_started_at is not null"""
    )
    assert apart == (True,)
    assert house.query(RECORDS) == records
    assert house.query(COSTS) == costs
