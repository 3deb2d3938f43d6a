"""SQL that rates usage which nobody has metered: what a quote describes. It reads, and cannot write.

The rating itself is the macro of the close (rating_sql.py); here it is given its tables, as values of one statement.
"""

from collections.abc import Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.instants import format_instant
from tally.store.database import Connection
from tally.store.json_text import write_json
from tally.store.metering.rating_sql import RatingTables, rating_sql


class QuotedUsage(NamedTuple):
    """A row of what rating reads of usage."""

    id: UUID
    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    project_id: str
    lifetime_no: int
    state: str
    from_ts: datetime
    to_ts: datetime
    length_us: int
    size: dict[str, Any]
    counters: dict[str, Any]
    usage: dict[str, Any]


class QuotedRate(NamedTuple):
    """What one dimension of a record costs."""

    usage_record_id: UUID
    dimension: str
    quantity: Decimal
    price: Decimal
    state_modifier: Decimal
    type_modifier: Decimal
    amount: Decimal
    amount_exact: Decimal
    currency: str
    basis: dict[str, Any] | None  # what the amount goes by that other records decide


_RATING = rating_sql(RatingTables(run="quoted_run", usage_records="quoted_usage")).replace("%", "%%")

_RATED = f"""
    with quoted_run as (
        select
            null::uuid as run_id, %(period)s::text as period, %(period_from)s::timestamptz as period_from,
            %(period_to)s::timestamptz as period_to, %(period_to)s::timestamptz as metered_to,
            %(version)s::text as pricing_version
    ),

    quoted_usage as (
        select null::uuid as run_id, null::text as from_event_id, null::text as to_event_id, described.*
        from jsonb_to_recordset(%(usage)s::jsonb) as described (
            id uuid, cloud text collate "C", platform text collate "C", resource_type text collate "C",
            resource_id text collate "C", project_id text collate "C", lifetime_no integer, state text collate "C",
            from_ts timestamptz, to_ts timestamptz, length_us bigint, size jsonb, counters jsonb, usage jsonb
        )
    )

    select {", ".join(QuotedRate._fields)} from ({_RATING}) as rated"""


def rated(
    connection: Connection, period: str, span: tuple[datetime, datetime], version: str, usage: Sequence[QuotedUsage]
) -> list[QuotedRate]:
    """Rate usage of a period by a loaded version, as its close would; in no order."""
    rows = [record._asdict() for record in usage]
    for row in rows:
        row.update(id=str(row["id"]), from_ts=format_instant(row["from_ts"]), to_ts=format_instant(row["to_ts"]))
    asked = {
        "period": period, "period_from": span[0], "period_to": span[1], "version": version, "usage": write_json(rows),
    }  # fmt: skip
    with connection.transaction():
        connection.execute("set transaction read only")
        return [QuotedRate(*row) for row in connection.execute(_RATED.encode(), asked, prepare=False)]
