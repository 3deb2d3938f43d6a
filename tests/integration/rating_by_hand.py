"""Rating outside dbt: usage that a test writes down, a price file as text, and the SQL of the close over both."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, NamedTuple

import simplejson

from pricing.model import PriceVersion
from pricing.month import MonthRecord
from tally.services.pricing import price_row, tier_rows
from tally.store.database import Connection
from tally.store.metering.checks import invariant
from tally.store.metering.rating_sql import RatingTables, rating_sql

TABLES = RatingTables(
    "pg_temp.rating_run", "pg_temp.rating_usage", "pg_temp.pricing_versions", "pg_temp.prices",
    "pg_temp.price_modifiers", "pg_temp.price_tiers",
)
MICROSECOND = timedelta(microseconds=1)
COUNTERS = frozenset({"used", "egress_gb"})
RATED = "pg_temp.rating_rated"
_CUT = replace(TABLES, parts="pg_temp.rating_parts", increments="pg_temp.rating_increments")
_COPIES = {
    TABLES.versions: "pricing_versions", TABLES.prices: "prices", TABLES.modifiers: "price_modifiers",
    TABLES.tiers: "price_tiers",
}
# What a check of rating reads, and where it lies here.
_CHECKED = {
    "metering.int_rated_records": RATED, "metering.int_usage_records": TABLES.usage_records,
    "ledger.run_prices": "pg_temp.run_prices",
    **{f"ledger.{table}": copy for copy, table in _COPIES.items()},
    ":run_id": "md5('run')::uuid",
}

Part = tuple[PriceVersion, datetime, datetime]


class Increment(NamedTuple):
    """What a counter of a record, given by its place, gained at an instant; at its end, its life ends there."""

    record: int
    at: datetime
    metric: str
    quantity: Decimal


def make_tables(metering: Connection) -> None:
    """Make the tables that rating reads, empty, for this session."""
    metering.execute(f"create temporary table {_bare(TABLES.run)} (pricing_version text)".encode())
    for copy, table in _COPIES.items():
        metering.execute(f"create temporary table {_bare(copy)} (like ledger.{table} including defaults)".encode())
    metering.execute(
        b"create temporary table rating_parts (pricing_version text, from_ts timestamptz, to_ts timestamptz)"
    )
    metering.execute(
        b"""create temporary table rating_increments (
            cloud text, resource_type text, resource_id text, lifetime_no integer, timestamp timestamptz,
            closed_at timestamptz, metric text, quantity numeric)"""
    )
    metering.execute(
        f"""create temporary table {_bare(TABLES.usage_records)} (
            no integer, cloud text, platform text, resource_type text, resource_id text, id uuid, run_id uuid,
            project_id text, lifetime_no integer, from_ts timestamptz, length_us bigint, state text, size jsonb,
            usage jsonb, to_ts timestamptz, counters jsonb)""".encode()
    )
    metering.execute(b"create temporary view run_prices as select *, md5('run')::uuid as run_id from rating_parts")
    metering.execute(f"create temporary table {_bare(RATED)} as {rating_sql(TABLES)}".encode())


def rated(metering: Connection, version: PriceVersion, records: Sequence[MonthRecord]) -> list[dict[str, Any]]:
    """Rate records by SQL; per record a mapping of dimension to (price, amount, amount_exact, basis)."""
    _fill(metering, [version], records)
    metering.execute(b"insert into rating_parts values (%s, '-infinity', 'infinity')", [version.version])
    metering.execute(f"insert into {RATED} {rating_sql(TABLES)}".encode(), prepare=False)
    rows = metering.execute(
        f"""select usage.no, rated.dimension, rated.price, rated.amount, rated.amount_exact, rated.basis
            from {RATED} as rated
            inner join {TABLES.usage_records} as usage on usage.id = rated.usage_record_id""".encode(),
        prepare=False,
    ).fetchall()
    found: list[dict[str, Any]] = [{} for _ in records]
    for no, dimension, *said in rows:
        assert dimension not in found[no]
        found[no][dimension] = tuple(said)
    return found


def rated_in_parts(
    metering: Connection,
    parts: Sequence[Part],
    records: Sequence[MonthRecord],
    increments: Sequence[Increment] = (),
) -> dict[tuple[int, str, datetime], Any]:
    """Rate records that are cut where prices change, by SQL.

    Returns:
        By (place of the record, dimension, beginning of the piece): whether it is cut there, and what rated tells.
    """
    _fill(metering, [version for version, _, _ in parts], records)
    metering.execute(b"delete from rating_increments")
    with metering.cursor() as cursor:
        cursor.executemany(
            "insert into rating_parts values (%s, %s, %s)", [(part[0].version, *part[1:]) for part in parts]
        )
        cursor.executemany(
            "insert into rating_increments values (%s, %s, %s, %s, %s, %s, %s, %s)",
            [_gained(records[one.record], one) for one in increments],
        )
    metering.execute(f"insert into {RATED} {rating_sql(_CUT)}".encode(), prepare=False)
    rows = metering.execute(
        f"""select usage.no, rated.dimension, coalesce(rated.from_ts, usage.from_ts), rated.from_ts is not null,
                coalesce(rated.to_ts, usage.to_ts), rated.pricing_version, rated.quantity, rated.price, rated.amount,
                rated.amount_exact, rated.basis
            from {RATED} as rated
            inner join {TABLES.usage_records} as usage on usage.id = rated.usage_record_id""".encode(),
        prepare=False,
    ).fetchall()
    found = {tuple(row[:3]): tuple(row[3:]) for row in rows}
    assert len(found) == len(rows)
    return found


def violations(metering: Connection, name: str) -> list[str]:
    """What violates an invariant of what was rated last, in words."""
    names = re.compile("|".join(map(re.escape, sorted(_CHECKED, key=len, reverse=True))))
    query = names.sub(lambda found: _CHECKED[found[0]], invariant(name).sql)
    return [row[3] for row in metering.execute(query.encode(), prepare=False).fetchall()]


def pieces(
    parts: Sequence[Part], records: Sequence[MonthRecord], increments: Sequence[Increment]
) -> Iterator[tuple[int, bool, PriceVersion, MonthRecord]]:
    """Cut records by hand: (place of the record, whether it is cut, version, piece)."""
    for no, record in enumerate(records):
        own = [one for one in increments if one.record == no]
        for version, begin, end in parts:
            from_ts, to_ts = max(record.from_ts, begin), min(ends(record), end)
            if from_ts < to_ts:
                usage = {metric: number for metric, number in record.usage.items() if metric not in COUNTERS}
                for one in own:
                    if from_ts <= one.at < to_ts or one.at == to_ts == ends(record):
                        usage[one.metric] = usage.get(one.metric, Decimal(0)) + one.quantity
                piece = replace(record, from_ts=from_ts, length_us=(to_ts - from_ts) // MICROSECOND, usage=usage)
                yield no, (from_ts, to_ts) != (record.from_ts, ends(record)), version, piece


def _gained(record: MonthRecord, one: Increment) -> tuple[Any, ...]:
    closed_at = one.at if one.at == ends(record) else None
    key = (record.cloud, record.resource_type, record.resource_id, record.lifetime_no)
    return (*key, one.at, closed_at, one.metric, one.quantity)


def _fill(metering: Connection, versions: Sequence[PriceVersion], records: Sequence[MonthRecord]) -> None:
    for table in (TABLES.run, TABLES.usage_records, RATED, "rating_parts", *_COPIES):
        metering.execute(f"delete from {table}".encode())
    metering.execute(f"insert into {TABLES.run} values (%s)".encode(), [versions[0].version])
    for version in versions:
        _fill_prices(metering, version)
    with metering.cursor() as cursor:
        cursor.executemany(
            f"""insert into {TABLES.usage_records} values (
                %s, %s, %s, %s, %s, md5(%s::text)::uuid, md5('run')::uuid, %s, %s, %s, %s, %s, %s, %s, %s, %s
            )""".encode(),
            [_row(no, record) for no, record in enumerate(records)],
        )


def _fill_prices(metering: Connection, version: PriceVersion) -> None:
    name = version.version
    metering.execute(
        f"""insert into {TABLES.versions} (version, valid_from, currency, content, content_hash, loaded_at)
            values (%s, %s, %s, '{{}}', '', now())""".encode(),
        [name, version.valid_from, version.currency],
    )
    with metering.cursor() as cursor:
        cursor.executemany(
            f"""insert into {TABLES.prices} (version, platform, resource_type, metric, formula, price, tier_mode,
                tier_group, minimum_us, increment_us, monthly_cap)
                values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""".encode(),
            [(name, *price_row(price)) for price in version.prices],
        )
        cursor.executemany(
            f"""insert into {TABLES.tiers} (version, platform, resource_type, metric, no, above, up_to, price)
                values (%s, %s, %s, %s, %s, %s, %s, %s)""".encode(),
            [(name, *row) for price in version.prices for row in tier_rows(price)],
        )
        cursor.executemany(
            f"insert into {TABLES.modifiers} values (%s, %s, %s, %s, %s, %s)".encode(),
            [(name, m.platform, m.resource_type, m.kind, m.value, m.modifier) for m in version.modifiers],
        )


def _row(no: int, record: MonthRecord) -> tuple[Any, ...]:
    usage = simplejson.dumps(dict(record.usage), use_decimal=True)
    counters = simplejson.dumps({metric: 1 for metric in record.usage if metric in COUNTERS})
    return (
        no, record.cloud, record.platform, record.resource_type, record.resource_id, no, record.project_id,
        record.lifetime_no, record.from_ts, record.length_us, record.state, usage, usage, ends(record), counters,
    )


def _bare(name: str) -> str:
    return name.removeprefix("pg_temp.")


def ends(record: MonthRecord) -> Any:
    """The instant at which a record ends."""
    return record.from_ts + timedelta(microseconds=record.length_us)


def as_numbers(basis: Any) -> dict[str, Decimal]:
    """What a basis holds, of SQL or of the reference, to compare."""
    if basis is None:
        return {}
    told = basis if isinstance(basis, dict) else {name: getattr(basis, name) for name in basis.__dataclass_fields__}
    return {name: Decimal(value) for name, value in told.items() if value is not None}
