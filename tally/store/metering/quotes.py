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


class QuotedPart(NamedTuple):
    """A part of the month and the loaded version that prices it."""

    pricing_version: str
    from_ts: datetime
    to_ts: datetime


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
    pricing_version: str
    from_ts: datetime | None  # the part of the usage that it pays for, where prices change in it; None: all of it
    to_ts: datetime | None
    basis: dict[str, Any] | None  # what the amount goes by that other records decide


_TABLES = RatingTables(run="quoted_parts", usage_records="quoted_usage", parts="quoted_parts")
_RATING = rating_sql(_TABLES).replace("%", "%%")

_RATED = f"""
    with quoted_parts as (
        select * from jsonb_to_recordset(%(parts)s::jsonb) as part (
            pricing_version text, from_ts timestamptz, to_ts timestamptz
        )
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


def rated(connection: Connection, parts: Sequence[QuotedPart], usage: Sequence[QuotedUsage]) -> list[QuotedRate]:
    """Rate usage of a month by loaded versions, as its close would; in no order.

    What counters gained counts whole: usage that has some must lie within one part.
    """
    asked = {"parts": write_json(_rows(parts)), "usage": write_json(_rows(usage))}
    with connection.transaction():
        connection.execute("set transaction read only")
        return [QuotedRate(*row) for row in connection.execute(_RATED.encode(), asked, prepare=False)]


def _rows(values: Sequence[QuotedPart] | Sequence[QuotedUsage]) -> list[dict[str, Any]]:
    rows = [value._asdict() for value in values]
    for row in rows:
        row |= {name: format_instant(row[name]) for name in ("from_ts", "to_ts")}
        if "id" in row:
            row["id"] = str(row["id"])
    return rows
