"""The timelines from scratch beside the same query by DuckDB from a Parquet file, both with two threads.

DuckDB runs the compiled text of the timelines itself, of all resources at once, with the few words replaced that it
spells otherwise: so both derive the same timelines, and the benchmark refuses to print a figure if they do not.
"""

import re
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

import duckdb

from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import runs
from tally.store.database import Connection, connected
from tests.bench.databases import database
from tests.bench.events import EVENT_COLUMNS, copy_reporting, events
from tests.integration.metering_sql import compiled_expression, dbt

EVENTS = 1_000_000
EVENTS_PER_RESOURCE = 25
_MODELS = "int_void_events int_intervals_first_half int_intervals_second_half int_resource_intervals"
NOW = datetime(2026, 5, 1, tzinfo=UTC)
SUMMARY = """
    select count(*), sum(lifetime_no), count(to_ts), min(from_ts), max(from_ts),
        sum(cast(extract(epoch from coalesce(to_ts, timestamptz '2026-05-01T00:00:00Z') - from_ts) as numeric(20, 6)))
    from {table}"""


def run(server_url: str, count: int = EVENTS) -> list[dict[str, object]]:
    """Measure the seconds of both for ``count`` events over a 25th of as many resources."""
    with (
        database(server_url, "reporting") as reporting_url,
        database(server_url, "metering") as metering_url,
        connected(reporting_url) as reporting,
        connected(metering_url) as metering,
    ):
        copy_reporting(reporting, events(count, max(1, count // EVENTS_PER_RESOURCE)))
        begun = runs.start(reporting, metering, BillingPeriod.parse("2026-03"), lambda: NOW)
        dbt(metering, "run", begun, "stg_runs stg_lifecycles stg_resource_types stg_events")
        seconds = derive_timelines(metering, begun)
        limit = duckdb_seconds(metering)
    return [
        {
            "name": "timeline_vs_duckdb",
            "value": round(seconds, 2),
            "unit": "s",
            "reference": "the same query by DuckDB from Parquet",
            "reference_value": round(limit, 2),
            "ratio": round(seconds / limit, 2),
        }
    ]


def derive_timelines(metering: Connection, begun: Run, *options: str) -> float:
    """Seconds of dbt for the timelines of what has changed; with --full-refresh, of all resources."""
    dbt(metering, "run", begun, "int_changed_resources")
    start = time.perf_counter()
    dbt(metering, "run", begun, _MODELS, *options)
    return time.perf_counter() - start


def duckdb_seconds(metering: Connection) -> float:
    """Seconds of DuckDB for the same timelines.

    Raises:
        AssertionError: if it derives others.
    """
    with (
        tempfile.TemporaryDirectory() as folder,
        duckdb.connect(config={"threads": 2}) as duck,
    ):
        parquet = Path(folder) / "events.parquet"
        duck.execute("set timezone = 'UTC'; set enable_progress_bar = false")
        _export(metering, duck, parquet)
        query = _translated(compiled_expression(metering, "{{ timelines(ref('stg_events') ~ ' as events', 'true') }}"))
        start = time.perf_counter()
        _stage(duck, parquet)
        duck.execute(f"create table timelines as {query}")
        seconds = time.perf_counter() - start
        theirs = duck.execute(SUMMARY.format(table="timelines")).fetchone()
    ours = metering.execute(SUMMARY.format(table="metering.int_resource_intervals").encode()).fetchone()
    if theirs != ours:
        raise AssertionError(f"DuckDB derived other timelines: {theirs} instead of {ours}")
    return seconds


def _export(metering: Connection, duck: duckdb.DuckDBPyConnection, parquet: Path) -> None:
    """Write the raw events to Parquet, by way of CSV, and hand over what their types do."""
    table = parquet.with_suffix(".csv")
    query = f"copy (select {EVENT_COLUMNS} from raw.events) to stdout (format csv, header)"
    with table.open("wb") as file, metering.cursor().copy(query.encode()) as copy:
        for block in copy:
            file.write(block)
    duck.execute(
        f"""copy (select * from read_csv('{table}', quote = '"', escape = '"', types = {{'timestamp': 'TIMESTAMPTZ'}}))
            to '{parquet}'"""
    )
    table.unlink()
    columns = "platform text, resource_type text, event_type text, effect text, state text"
    duck.execute(f"create table lifecycles ({columns})")
    steps = metering.execute("select platform, resource_type, event_type, effect, state from staging.stg_lifecycles")
    duck.executemany("insert into lifecycles values (?, ?, ?, ?, ?)", steps.fetchall())


def _stage(duck: duckdb.DuckDBPyConnection, parquet: Path) -> None:
    """Do what stg_events does. Nothing in these events is void."""
    duck.execute(
        f"""create view stg_events as
            select events.*, lifecycles.effect,
                list_position(['create', 'update', 'usage', 'delete'], lifecycles.effect) - 1 as effect_rank,
                case when lifecycles.effect in ('create', 'update') then events.payload ->> '$.size' end as size,
                case when lifecycles.effect in ('create', 'update')
                    then coalesce(events.payload ->> '$.state', lifecycles.state) end as state
            from read_parquet('{parquet}') as events
            left join lifecycles using (platform, resource_type, event_type)"""
    )
    duck.execute(
        """create table int_void_events (
            cloud text, resource_type text, resource_id text, timestamp timestamptz, event_id text)"""
    )


def _translated(query: str) -> str:
    """Spell a compiled model as DuckDB does."""
    for theirs, ours in (
        (r'"[^"]+"\."[^"]+"\."([^"]+)"', r"\1"),
        (r"select from", "select 1 from"),
        (r'collate "C"', ""),
        (r"::jsonb", ""),
        (r"raw\.last_known\((.*)\) over", r"last_value(\1 ignore nulls) over"),
        (r"case when size::text ~ .* end as size", "size"),  # whose numbers all have one spelling
    ):
        query = re.sub(theirs, ours, query)
    return query
