"""SQL that rates the usage that counts of a month by prices that nobody has loaded. It reads, and cannot write.

The rating itself is the macro of the close (rating_sql.py); here it is given its tables: what counts in the ledger, and
the draft as values of the statement.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.instants import format_instant
from tally.store.database import Connection, reading
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


class DraftPart(NamedTuple):
    """A part of the month and the version that would price it, which nobody has to have loaded."""

    rows: VersionRows
    from_ts: datetime
    to_ts: datetime


class DraftRated(NamedTuple):
    """What usage comes to by a draft.

    ``cut_counters`` records have counters that some version prices, and are cut where the draft begins, ``cut_example``
    of a resource: of these, counters are not in the amounts.
    """

    amounts: list[ProjectAmounts]  # by (cloud, project_id)
    shapes: list[UsageShape]  # of the usage that the draft prices
    cut_counters: int
    cut_example: str | None


_TABLES = ("pricing_versions", "prices", "price_tiers", "price_modifiers")

_RATING = rating_sql(
    RatingTables(
        run="draft_parts",
        usage_records="used",
        versions="draft_pricing_versions",
        prices="draft_prices",
        tiers="draft_price_tiers",
        modifiers="draft_price_modifiers",
        parts="draft_parts",
    )
).replace("%", "%%")

# What a row does not name is null.
_DRAFT = ", ".join(
    f"draft_{table} as materialized (select * from jsonb_populate_recordset(null::ledger.{table}, %({table})s::jsonb))"
    for table in _TABLES
)

_AMOUNTS = f"""
    with draft_parts as materialized (
        select * from jsonb_to_recordset(%(parts)s::jsonb) as part (
            pricing_version text, from_ts timestamptz, to_ts timestamptz
        )
    ),

    {_DRAFT},

    used as materialized (
        select
            cloud, platform, resource_type, resource_id, id, run_id, lifetime_no, project_id, state, from_ts, to_ts,
            from_event_id, to_event_id, usage,
            (extract(epoch from to_ts - from_ts) * 1000000)::bigint as length_us,
            usage - counters - array['minutes', 'count'] as size, jsonb_object(counters, counters) as counters
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
        where to_ts > %(since)s
    ) as shapes
    group by platform, resource_type, state, usage_type, metrics
    order by platform, resource_type, state, usage_type, metrics"""


# Records that the beginning of the draft cuts, and whose counters have a price.
_CUT_COUNTERS = f"""
    select count(*), min(cloud || '/' || resource_type || '/' || resource_id)
    from {USAGE} as counting
    where from_ts < %(since)s and to_ts > %(since)s and exists (
        select from jsonb_populate_recordset(null::ledger.prices, %(prices)s::jsonb) as price
        where price.platform = counting.platform and price.resource_type = counting.resource_type
            and price.metric = any(counting.counters)
    )"""


def rated_by_draft(connection: Connection, run_id: UUID, parts: Sequence[DraftPart]) -> DraftRated:
    """Compare what counts as of a run with what it would cost by a draft, project by project, in one snapshot.

    ``parts`` are the versions of the month in the order of time, the draft the last one of them.
    """
    since = parts[-1].from_ts
    with reading(connection):
        counting = {"members": members(connection, run_id), "since": since}
        asked = counting | _rows(parts)
        cut = connection.execute(_CUT_COUNTERS.encode(), asked, prepare=False).fetchone() if len(parts) > 1 else None
        amounts = connection.execute(_AMOUNTS.encode(), asked, prepare=False).fetchall()
        shapes = connection.execute(_SHAPES.encode(), counting, prepare=False).fetchall()
    return DraftRated(
        [ProjectAmounts(*row) for row in amounts], [UsageShape(*row) for row in shapes], *(cut or (0, None))
    )


def _rows(parts: Sequence[DraftPart]) -> dict[str, str]:
    """The rows of versions as JSON, by the tables of the ledger that they would be in, and their parts of the month."""
    rows: dict[str, list[dict[str, Any]]] = {table: [] for table in _TABLES}
    for part in parts:
        name = {"version": part.rows.version.version}
        rows["pricing_versions"].append(name | {"currency": part.rows.version.currency})
        tables: dict[str, Sequence[PriceRow | TierRow | ModifierRow]] = {
            "prices": part.rows.prices,
            "price_tiers": part.rows.tiers,
            "price_modifiers": part.rows.modifiers,
        }
        for table, added in tables.items():
            rows[table] += [name | row._asdict() for row in added]
    rows["parts"] = [
        {
            "pricing_version": part.rows.version.version,
            "from_ts": format_instant(part.from_ts),
            "to_ts": format_instant(part.to_ts),
        }
        for part in parts
    ]
    return {table: write_json(added) for table, added in rows.items()}
