"""Corrections of the month as a clerk reads them: the words of the tests about corrections."""

from collections.abc import Mapping
from datetime import timedelta
from decimal import Decimal
from typing import Any

from dagster import ExecuteInProcessResult

from tally.domain.instants import parse_instant
from tally.services import runs
from tally.services.finalize import finalize
from tests.integration.closing import AFTER_GRACE, House


def finalize_month(house: House) -> None:
    """Finalize the closed month, as the job does."""
    with house.connected() as (reporting, metering), runs.metering_lock(metering):
        finalize(reporting, metering, house.period, timedelta(hours=72), lambda: parse_instant(AFTER_GRACE))


def correct(house: House, tags: Mapping[str, str] | None = None, **resources: Any) -> ExecuteInProcessResult:
    """Materialize the finalized month again: that is a correction."""
    return house.launch(tags=dict(tags or {}), **resources)


def lines(house: House, number: int, resource_id: str) -> list[str]:
    """What the number-th correction writes of a resource (0: the regular run): reversals first, in the order of time.

    A line is the sign, beginning, end, project, state and cost, such as "- 01 00:00 01 00:00 p-1 active -148.80".
    """
    rows = house.query(
        f"""select case u.sign when 1 then '+' else '-' end, to_char(u.from_ts at time zone 'utc', 'DD HH24:MI'),
                to_char(u.to_ts at time zone 'utc', 'DD HH24:MI'), u.project_id, u.state, sum(r.amount)
            from ledger.usage_records as u
            left join ledger.rated_records as r
                on r.cloud = u.cloud and r.resource_type = u.resource_type and r.resource_id = u.resource_id
                    and r.usage_record_id = u.id and r.run_id = u.run_id
            where u.run_id = ({_run(number)}) and u.resource_id = '{resource_id}'
            group by u.id, u.sign, u.from_ts, u.to_ts, u.project_id, u.state
            order by u.sign, u.from_ts"""
    )
    return [" ".join(map(str, row)) for row in rows]


def costs(house: House, number: int, resource_id: str) -> dict[str, Decimal]:
    """What the number-th correction changes of a resource's costs, by dimension."""
    rows = house.query(
        f"""select dimension, sum(amount) from ledger.rated_records
            where run_id = ({_run(number)}) and resource_id = '{resource_id}' group by 1"""
    )
    return {str(dimension): amount for dimension, amount in rows}


def bills(house: House, number: int, project_id: str) -> list[tuple[int, Decimal]]:
    """The bills of a project that the number-th correction takes back (-1) and writes (1), with their totals."""
    rows = house.query(
        f"""select sign, total from ledger.bills
            where run_id = ({_run(number)}) and project_id = '{project_id}' order by sign"""
    )
    return [(sign, total) for sign, total in rows]


def records(house: House, number: int) -> dict[str, int]:
    """How many rows the number-th correction has written, by table."""
    tables = ("usage_records", "rated_records", "attributions", "bills")
    counts = [house.query(f"select count(*) from ledger.{table} where run_id = ({_run(number)})") for table in tables]
    return {table: count for table, ((count,),) in zip(tables, counts, strict=True)}


def finalized_rows(house: House) -> dict[tuple[str, str], str]:
    """A hash of the rows of each finalized run in each table, which tells also whether a row was ever written again."""
    tables = {"runs": "id", "usage_records": "run_id", "rated_records": "run_id", "attributions": "run_id",
              "bills": "run_id", "adjustments": "run_id", "findings": "run_id", "checks": "run_id"}
    return {
        (table, str(run_id)): str(digest)
        for table, run in tables.items()
        for run_id, digest in house.query(
            f"""select t.{run}, md5(string_agg(t.xmin::text || t::text, ',' order by t::text))
                from ledger.{table} as t
                where t.{run} in (select id from ledger.runs where status = 'finalized') group by 1"""
        )
    }


def _run(number: int) -> str:
    """The id of the number-th run of the month that counts."""
    counting = "select id from ledger.runs where status in ('completed', 'finalized')"
    return f"{counting} order by load_id offset {number} limit 1"
