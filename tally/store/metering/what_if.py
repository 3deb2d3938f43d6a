"""SQL that rates the usage that counts of a month by prices that nobody has loaded. It reads, and cannot write.

The rating itself is the macro of the close (rating_sql.py); here it is given its tables: what counts in the ledger, and
the draft as values of the statement.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.metering.effective import RATED, USAGE
from tally.store.metering.prices import ModifierRow, PriceRow, TierRow, VersionRows
from tally.store.metering.rating_sql import RatingTables, rating_sql
from tally.store.metering.runs import members


class ProjectAmounts(NamedTuple):
    """What a project costs, rounded and exact, by the prices that counted and by the draft."""

    cloud: str
    project_id: str
    before: Decimal
    before_exact: Decimal
    after: Decimal
    after_exact: Decimal


class UsageShape(NamedTuple):
    """Usage records that prices see alike: the same state, type and metrics."""

    platform: str
    resource_type: str
    state: str
    type: str | None
    metrics: list[str]
    records: int


_TABLES = ("pricing_versions", "prices", "price_tiers", "price_modifiers")

_RATING = rating_sql(
    RatingTables(
        run="draft_run",
        usage_records="used",
        versions="draft_pricing_versions",
        prices="draft_prices",
        tiers="draft_price_tiers",
        modifiers="draft_price_modifiers",
    )
).replace("%", "%%")

# What a row does not name is null.
_DRAFT = ", ".join(
    f"draft_{table} as materialized (select * from jsonb_populate_recordset(null::ledger.{table}, %({table})s::jsonb))"
    for table in _TABLES
)

_AMOUNTS = f"""
    with draft_run as (
        select
            id as run_id, period, period_from, period_to, metered_to, load_id, since_load_id, registry_version,
            %(version)s::text as pricing_version, counter_fetch_id
        from ledger.runs where id = %(run_id)s
    ),

    {_DRAFT},

    used as materialized (
        select
            cloud, platform, resource_type, resource_id, id, run_id, lifetime_no, project_id, state, from_ts, to_ts,
            from_event_id, to_event_id, usage,
            (extract(epoch from to_ts - from_ts) * 1000000)::bigint as length_us,
            usage - counters - array['minutes', 'count'] as size
        from {USAGE} as counting
    ),

    after as (
        select cloud, project_id, sum(amount) as amount, sum(amount_exact) as amount_exact
        from ({_RATING}) as rated group by cloud, project_id
    ),

    before as (
        select cloud, project_id, sum(amount) as amount, sum(amount_exact) as amount_exact
        from {RATED} as counting group by cloud, project_id
    )

    select
        cloud, project_id, coalesce(before.amount, 0.00), coalesce(before.amount_exact, 0),
        coalesce(after.amount, 0.00), coalesce(after.amount_exact, 0)
    from before full join after using (cloud, project_id)
    order by cloud, project_id"""

_SHAPES = f"""
    select platform, resource_type, state, usage_type, metrics, count(*)
    from (
        select
            platform, resource_type, state,
            case when jsonb_typeof(usage -> 'type') = 'string' then usage ->> 'type' end as usage_type,
            array(select key from jsonb_each(usage) where jsonb_typeof(value) = 'number' order by key) as metrics
        from {USAGE} as counting
    ) as shapes
    group by platform, resource_type, state, usage_type, metrics
    order by platform, resource_type, state, usage_type, metrics"""


@contextmanager
def reading(connection: Connection) -> Iterator[None]:
    """A transaction of one snapshot that the database lets read only."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


def rated_by_draft(
    connection: Connection, run_id: UUID, draft: VersionRows
) -> tuple[list[ProjectAmounts], list[UsageShape]]:
    """Compare what counts as of a run with what it would cost by a draft, project by project, in one snapshot.

    Returns:
        The amounts by (cloud, project_id), and the shapes of the usage.
    """
    with reading(connection):
        counting = {"members": members(connection, run_id)}
        asked = counting | _rows(draft) | {"run_id": run_id, "version": draft.version.version}
        amounts = connection.execute(_AMOUNTS.encode(), asked, prepare=False).fetchall()
        shapes = connection.execute(_SHAPES.encode(), counting, prepare=False).fetchall()
    return [ProjectAmounts(*row) for row in amounts], [UsageShape(*row) for row in shapes]


def _rows(draft: VersionRows) -> dict[str, str]:
    """The rows of a draft as JSON, by the tables of the ledger that they would be in."""
    name = {"version": draft.version.version}
    tables: dict[str, Sequence[PriceRow | TierRow | ModifierRow]] = {
        "prices": draft.prices,
        "price_tiers": draft.tiers,
        "price_modifiers": draft.modifiers,
    }
    rows = {table: write_json([name | row._asdict() for row in rows]) for table, rows in tables.items()}
    return rows | {"pricing_versions": write_json([name | {"currency": draft.version.currency}])}
