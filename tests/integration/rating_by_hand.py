"""Rating outside dbt: usage that a test writes down, a price file as text, and the SQL of the close over both."""

from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import Any

import simplejson

from pricing.model import PriceVersion
from pricing.month import MonthRecord
from tally.services.pricing import price_row, tier_rows
from tally.store.database import Connection
from tally.store.metering.rating_sql import RatingTables, rating_sql

TABLES = RatingTables(
    "pg_temp.rating_run", "pg_temp.rating_usage", "pg_temp.rating_versions", "pg_temp.rating_prices",
    "pg_temp.rating_modifiers", "pg_temp.rating_tiers",
)
_COPIES = {
    TABLES.versions: "pricing_versions", TABLES.prices: "prices", TABLES.modifiers: "price_modifiers",
    TABLES.tiers: "price_tiers",
}


def make_tables(metering: Connection) -> None:
    """Make the tables that rating reads, empty, for this session."""
    metering.execute(f"create temporary table {_bare(TABLES.run)} (pricing_version text)".encode())
    for copy, table in _COPIES.items():
        metering.execute(f"create temporary table {_bare(copy)} (like ledger.{table})".encode())
    metering.execute(
        f"""create temporary table {_bare(TABLES.usage_records)} (
            no integer, cloud text, platform text, resource_type text, resource_id text, id uuid, run_id uuid,
            project_id text, lifetime_no integer, from_ts timestamptz, length_us bigint, state text, size jsonb,
            usage jsonb)""".encode()
    )


def rated(metering: Connection, version: PriceVersion, records: Sequence[MonthRecord]) -> list[dict[str, Any]]:
    """Rate records by SQL; per record a mapping of dimension to (price, amount, amount_exact, basis)."""
    _fill(metering, version, records)
    rows = metering.execute(
        f"""select usage.no, rated.dimension, rated.price, rated.amount, rated.amount_exact, rated.basis
            from ({rating_sql(TABLES)}) as rated
            inner join {TABLES.usage_records} as usage on usage.id = rated.usage_record_id""".encode(),
        prepare=False,
    ).fetchall()
    found: list[dict[str, Any]] = [{} for _ in records]
    for no, dimension, *said in rows:
        assert dimension not in found[no]
        found[no][dimension] = tuple(said)
    return found


def _fill(metering: Connection, version: PriceVersion, records: Sequence[MonthRecord]) -> None:
    for table in (TABLES.run, TABLES.usage_records, *_COPIES):
        metering.execute(f"delete from {table}".encode())
    name = version.version
    metering.execute(f"insert into {TABLES.run} values (%s)".encode(), [name])
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
        cursor.executemany(
            f"""insert into {TABLES.usage_records} values
                (%s, %s, %s, %s, %s, md5(%s::text)::uuid, md5('run')::uuid, %s, %s, %s, %s, %s, %s, %s)""".encode(),
            [_row(no, record) for no, record in enumerate(records)],
        )


def _row(no: int, record: MonthRecord) -> tuple[Any, ...]:
    usage = simplejson.dumps(dict(record.usage), use_decimal=True)
    return (
        no, record.cloud, record.platform, record.resource_type, record.resource_id, no, record.project_id,
        record.lifetime_no, record.from_ts, record.length_us, record.state, usage, usage,
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
