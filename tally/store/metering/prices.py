"""Where price versions are kept: rows in, rows out.

What they mean is the business of the room pricing, when they are refused that of tally.services.pricing.
"""

from collections.abc import Iterator, Sequence
from datetime import date
from decimal import Decimal
from typing import Any, NamedTuple

from tally.store.database import Connection


class StoredVersion(NamedTuple):
    """A row of ledger.pricing_versions; ``content`` is JSON text, so that its decimals stay decimals."""

    version: str
    valid_from: date
    valid_to: date | None
    currency: str
    content: str
    content_hash: str
    mid_period: str


class PriceRow(NamedTuple):
    """A row of ledger.prices, without its version; ``minimum_us`` and ``increment_us`` are microseconds."""

    platform: str
    resource_type: str
    metric: str
    formula: str
    price: Decimal
    tier_mode: str | None
    tier_group: str | None
    minimum_us: int | None
    increment_us: int | None
    monthly_cap: Decimal | None


class TierRow(NamedTuple):
    """A row of ledger.price_tiers, without its version."""

    platform: str
    resource_type: str
    metric: str
    no: int
    above: Decimal
    up_to: Decimal | None
    price: Decimal


class ModifierRow(NamedTuple):
    """A row of ledger.price_modifiers, without its version."""

    platform: str
    resource_type: str
    kind: str
    value: str
    modifier: Decimal


class UnpricedRow(NamedTuple):
    """A row of ledger.unpriced, without its version."""

    platform: str
    resource_type: str
    metric: str


class VersionRows(NamedTuple):
    """A version with all its rows: what rating reads of it."""

    version: StoredVersion
    prices: Sequence[PriceRow]
    tiers: Sequence[TierRow]
    modifiers: Sequence[ModifierRow]
    unpriced: Sequence[UnpricedRow]


def lock_versions(connection: Connection) -> None:
    """Let one transaction at a time add versions, while others go on reading: collisions are judged on all of them."""
    connection.execute("lock table ledger.pricing_versions in share row exclusive mode")


def stored_versions(connection: Connection) -> list[StoredVersion]:
    """List all versions, by the first day that they hold for."""
    rows = connection.execute(
        "select version, valid_from, valid_to, currency, content::text, content_hash, mid_period"
        " from ledger.pricing_versions order by valid_from"
    )
    return [StoredVersion(*row) for row in rows]


def stored_rows(connection: Connection, version: StoredVersion) -> VersionRows:
    """All rows of a version, as rating reads them, in no order."""

    def rows(table: str, columns: Sequence[str]) -> Iterator[tuple[Any, ...]]:
        query = f"select {', '.join(columns)} from ledger.{table} where version = %s"
        yield from connection.execute(query.encode(), [version.version])

    return VersionRows(
        version,
        [PriceRow(*row) for row in rows("prices", PriceRow._fields)],
        [TierRow(*row) for row in rows("price_tiers", TierRow._fields)],
        [ModifierRow(*row) for row in rows("price_modifiers", ModifierRow._fields)],
        [UnpricedRow(*row) for row in rows("unpriced", UnpricedRow._fields)],
    )


def insert_version(connection: Connection, rows: VersionRows) -> None:
    """Add one version with all its rows; they never change afterwards."""
    version, prices, tiers, modifiers, unpriced = rows
    connection.execute(
        "insert into ledger.pricing_versions (version, valid_from, valid_to, currency, content, content_hash,"
        " mid_period) values (%s, %s, %s, %s, %s::jsonb, %s, %s)",
        version,
    )
    with connection.cursor() as cursor:
        cursor.executemany(
            "insert into ledger.prices (version, platform, resource_type, metric, formula, price, tier_mode,"
            " tier_group, minimum_us, increment_us, monthly_cap) values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
            [(version.version, *row) for row in prices],
        )
        cursor.executemany(
            "insert into ledger.price_tiers (version, platform, resource_type, metric, no, above, up_to, price)"
            " values (%s, %s, %s, %s, %s, %s, %s, %s)",
            [(version.version, *row) for row in tiers],
        )
        cursor.executemany(
            "insert into ledger.price_modifiers (version, platform, resource_type, kind, value, modifier)"
            " values (%s, %s, %s, %s, %s, %s)",
            [(version.version, *row) for row in modifiers],
        )
        cursor.executemany(
            "insert into ledger.unpriced (version, platform, resource_type, metric) values (%s, %s, %s, %s)",
            [(version.version, *row) for row in unpriced],
        )
