"""The rating of a month into the ledger beside a binary COPY of the same rows into the same indexed table.

Rating is what the close does with the usage of a month: the SQL of dbt's model and its table, then the ledger with its
keys and triggers, in two sessions. COPY does nothing but store the same rows, in the same run, in one session, in a
table with the columns, indexes and checks of the ledger's, but without its triggers, which hold rows to what they refer
to.
BENCH_RATED_RECORDS is the number of usage records where a machine has less time.
"""

import os
import time
from uuid import UUID

from tally.store.database import Connection, connected
from tally.store.metering import ledger
from tally.store.metering.rating_sql import RatingTables, rating_sql
from tests.bench.databases import database

RECORDS = int(os.environ.get("BENCH_RATED_RECORDS") or 1_000_000)
RECORDS_PER_RESOURCE = 5
DIMENSIONS = 4  # those of an instance

_RUN = UUID("00000000-0000-4000-8000-000000000001")
_TABLES = RatingTables("metering.stg_runs", "metering.int_usage_records")

# As dbt makes them; the usage of a server that is resized, or switched off and on, now and then.
_USAGE = """
    create schema metering;
    create table metering.stg_runs as select id as run_id, pricing_version from ledger.runs;
    create unlogged table metering.int_usage_records as
    select
        'os-' || n % 4 as cloud, 'openstack' as platform, 'instance' as resource_type, 'i-' || n as resource_id,
        md5(row(n, part)::text)::uuid as id, run_id, 1 as lifetime_no, 'p-' || n % 2000 as project_id,
        case when part % 3 = 1 then 'shutoff' else 'active' end as state,
        timestamptz '2026-03-01 00:00+00' + part * interval '5 days' as from_ts,
        timestamptz '2026-03-01 00:00+00' + (part + 1) * interval '5 days' as to_ts,
        'b' || part as from_event_id, 'b' || part + 1 as to_event_id, 432000000000 as length_us,
        size, counters, jsonb_build_object('minutes', 7200, 'count', 1) || size || counters as usage
    from generate_series(0, {resources} - 1) as n
    cross join generate_series(0, {per_resource} - 1) as part
    cross join metering.stg_runs
    cross join lateral (
        select jsonb_build_object('vcpus', 2 << part % 3, 'ram_gb', 4 << part % 3, 'disk_gb', 40 + n % 7, 'flavor', 'm')
            as size, jsonb_build_object('egress_gb', (n % 1000) / 8.0) as counters
    ) as said;
    create unique index on metering.int_usage_records (resource_id, resource_type, cloud, lifetime_no, from_ts);
    analyze metering.int_usage_records"""


def run(server_url: str, count: int = RECORDS) -> list[dict[str, object]]:
    """Measure rated rows per second of both, for ``count`` usage records of four dimensions."""
    with database(server_url, "metering") as url, connected(url) as metering:
        _make_usage(metering, count)
        seconds = {"model": _seconds(metering, _model), "ledger": _seconds(metering, _ledger)}
        rows, limit = _copy(metering)
    if rows != count * DIMENSIONS:
        raise AssertionError(f"{count} usage records made {rows} rated ones")
    total = sum(seconds.values())
    return [
        {
            "name": "rating_vs_copy",
            "value": round(rows / total),
            "unit": "rows/s",
            "reference": "binary COPY of the same rows into the same indexed table",
            "reference_value": round(rows / limit),
            "ratio": round(limit / total, 3),
        },
        *(
            {
                "name": f"rating_vs_copy.{step}",
                "value": round(part, 2),
                "unit": "s",
                "reference": "COPY",
                "reference_value": round(limit, 2),
                "ratio": round(part / limit, 2),
            }
            for step, part in seconds.items()
        ),
    ]


def _make_usage(metering: Connection, count: int) -> None:
    metering.execute(
        "insert into raw.loads (load_id, started_at, registry_version, events) values (1, '2026-04-01', 1, 0)"
    )
    metering.execute(
        """insert into ledger.runs (id, period, period_from, period_to, zone, kind, status, preliminary, metered_to,
               load_id, registry_version, pricing_version, code_version)
           values (%s, '2026-03', '2026-03-01Z', '2026-04-01Z', 'UTC', 'regular', 'running', false, '2026-04-01Z',
               1, 1, '2026-03', 'bench')""",
        [_RUN],
    )
    resources = max(1, count // RECORDS_PER_RESOURCE)
    metering.execute(_USAGE.format(resources=resources, per_resource=RECORDS_PER_RESOURCE).encode())
    ledger.write_usage(metering, _RUN)


def _model(metering: Connection) -> None:
    metering.execute(f"create unlogged table metering.int_rated_records as {rating_sql(_TABLES)}".encode())
    metering.execute("analyze metering.int_rated_records")


def _ledger(metering: Connection) -> None:
    ledger.write_rated(metering, _RUN)


def _seconds(metering: Connection, step: object) -> float:
    start = time.perf_counter()
    step(metering)  # type: ignore[operator]
    return time.perf_counter() - start


def _copy(metering: Connection) -> tuple[int, float]:
    """How many rows the ledger holds, and the seconds of a COPY of them into a table with its columns and indexes."""
    metering.execute("create table ledger.copied (like ledger.rated_records including all)")
    with metering.cursor().copy("copy ledger.rated_records to stdout (format binary)") as copy:
        blocks = list(copy)
    cursor = metering.cursor()
    start = time.perf_counter()
    with cursor.copy("copy ledger.copied from stdin (format binary)") as copy:
        for block in blocks:
            copy.write(block)
    return cursor.rowcount, time.perf_counter() - start
