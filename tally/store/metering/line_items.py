"""The line items of bills, written as JSON text by the database (their form: docs/adr/0003-bill-document.md).

A big month has millions of usage records, and each of them is shown: their text is made where they lie, in sets, and
is put into bills there (bill_texts.py). What stands around it is pricing.bill's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import TupleRow

from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.metering import effective
from tally.store.metering.asked import asked_projects
from tally.store.metering.runs import members


class PricedMetric(NamedTuple):
    """A metric that a price version prices. Their order is that on bills."""

    version: str
    platform: str
    resource_type: str
    metric: str
    has_types: bool  # whether the version has a table of types for the resource type


class AskedItems(NamedTuple):
    """Whose line items are asked for, by what they are priced, and in what currency.

    Where several versions price the month, each period is what one of them prices of a usage record, and names it.
    Usage that nothing prices is not shown.
    """

    projects: Sequence[ProjectKey]
    priced: Sequence[PricedMetric]
    currency: str


def execute(
    connection: Connection, query: str, run_id: UUID, asked: AskedItems, values: Mapping[str, Any] | None = None
) -> list[TupleRow]:
    """Run a query that begins with ITEMS, as of a run, in the transaction of the caller."""
    parameters: dict[str, Any] = {
        "members": members(connection, run_id), "currency": asked.currency, **asked_projects(asked.projects),
        "names_versions": len({metric.version for metric in asked.priced}) > 1, **(values or {}),
    }  # fmt: skip
    columns = zip(*asked.priced, strict=True) if asked.priced else [()] * len(PricedMetric._fields)
    for name, column in zip(PricedMetric._fields, columns, strict=True):
        parameters[f"priced_{name}"] = list(column)
    # The planner takes four equal columns for a rare find, and would look up one by one.
    connection.execute("set local enable_nestloop = off")
    rows = connection.execute(query.encode(), parameters).fetchall()
    connection.execute("set local enable_nestloop = on")
    return rows


def select_strange(connection: Connection, run_id: UUID, asked: AskedItems) -> list[str]:
    """What of the costs of some projects no bill can show, and why; the first of them."""
    with connection.transaction():
        return [row[0] for row in execute(connection, _STRANGE, run_id, asked)]


# Usage is numbered in the order of the document, so that its costs are sorted and grouped by numbers alone.
_COSTS = f"""
    with asked as (
        select *
        from unnest(%(clouds)s::text[], %(projects)s::text[]) with ordinality as asked (cloud, project_id, project_no)
    ),

    priced as (
        select priced.*, '            ' || to_json(priced.metric) || ': ' as label
        from unnest(
            %(priced_version)s::text[], %(priced_platform)s::text[], %(priced_resource_type)s::text[],
            %(priced_metric)s::text[], %(priced_has_types)s::boolean[]
        ) with ordinality as priced (version, platform, resource_type, metric, has_types, place)
    ),

    usage_records as materialized (
        select u.*, asked.project_no,
            row_number() over (
                order by asked.project_no, u.resource_type, u.resource_id, u.from_ts, u.to_ts, u.id
            ) as no
        from {effective.USAGE} as u
        inner join asked on asked.cloud = u.cloud and asked.project_id = u.project_id
        where u.project_id = any(%(projects)s::text[])
    ),

    costs as (
        select u.no, coalesce(r.from_ts, u.from_ts) as from_ts, coalesce(r.to_ts, u.to_ts) as to_ts,
            r.dimension, r.quantity, r.amount, r.currency, r.state_modifier, r.type_modifier,
            r.pricing_version, priced.place, priced.label, priced.has_types,
            r.quantity < 0 or r.amount < 0 as is_negative, r.currency <> %(currency)s as is_foreign
        from {effective.RATED} as r
        inner join usage_records as u
            on u.cloud = r.cloud and u.resource_type = r.resource_type and u.resource_id = r.resource_id
            and u.id = r.usage_record_id
        left join priced
            on priced.version = r.pricing_version and priced.platform = r.platform
            and priced.resource_type = r.resource_type and priced.metric = r.dimension
        where r.project_id = any(%(projects)s::text[])
    )"""


def _shown(modifier: str) -> str:
    """A modifier with at least one decimal, as 1.0 and 0.25."""
    return f"""trim_scale({modifier}) || case when scale(trim_scale({modifier})) = 0 then '.0' else '' end"""


def _instant(column: str) -> str:
    """An instant as tally.domain.instants writes it."""
    return f"""replace(to_char({column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.US"Z"'), '.000000', '')"""


def _kept(name: str) -> str:
    """A name that all periods of a resource have, or null."""
    return f"case when count({name}) = count(*) and min({name}) = max({name}) then nullif(min({name}), '') end"


# The numbers of a document are written as they were rated. All gauges of a record have the same modifiers, and counters
# have 1: of several, the one that differs from 1 is that of the gauges.
ITEMS = f"""
    {_COSTS},

    by_record as (
        select no, pricing_version, min(from_ts) as from_ts, max(to_ts) as to_ts, bool_or(has_types) as has_types,
            sum(amount) as total,
            string_agg(label || trim_scale(quantity), E',\\n' order by place) as usage,
            string_agg(label || amount, E',\\n' order by place) as cost,
            case when min(state_modifier) < 1 then min(state_modifier) else max(state_modifier) end as state_modifier,
            case when min(type_modifier) < 1 then min(type_modifier) else max(type_modifier) end as type_modifier,
            count(*) - count(distinct place) + count(*) filter (where is_negative or is_foreign) as strange
        from costs
        group by no, pricing_version
    ),

    periods as (
        select u.no, c.from_ts, u.project_no, u.cloud, u.project_id, u.platform, u.resource_type, u.resource_id,
            c.total, c.strange, u.usage ->> 'flavor' as flavor, u.usage ->> 'server_type' as server_type,
            u.usage ->> 'machine_type' as machine_type, u.usage ->> 'type' as type,
            concat(
                E'{{\\n          "state": ', to_json(u.state),
                E',\\n          "from": "', {_instant("c.from_ts")},
                E'",\\n          "to": "', {_instant("c.to_ts")},
                E'",\\n          "hours": ', trim_scale(round(extract(epoch from c.to_ts - c.from_ts) / 3600, 6)),
                E',\\n          "usage": {{\\n', c.usage,
                E'\\n          }},\\n          "cost": {{\\n', c.cost, E',\\n            "total": ', c.total,
                E'\\n          }},\\n          "state_modifier": ', {_shown("c.state_modifier")},
                case when c.has_types then E',\\n          "type_modifier": ' || {_shown("c.type_modifier")} end,
                case when %(names_versions)s then E',\\n          "price_version": ' || to_json(c.pricing_version) end,
                E'\\n        }}'
            ) as period
        from usage_records as u
        inner join by_record as c on c.no = u.no
    ),

    items as (
        select project_no, cloud, project_id, platform, resource_type, resource_id, sum(strange) as strange,
            concat(
                E'{{\\n      "resource_type": ', to_json(resource_type),
                E',\\n      "resource_id": ', to_json(resource_id),
                E',\\n      "platform": ', to_json(platform),
                E',\\n      "description": ', to_json(coalesce(
                    {_kept("flavor")} || ' ' || resource_type, {_kept("server_type")} || ' ' || resource_type,
                    {_kept("machine_type")} || ' ' || resource_type, {_kept("type")} || ' ' || resource_type,
                    resource_type || ' ' || resource_id
                )),
                E',\\n      "periods": [\\n        ', string_agg(period, E',\\n        ' order by no, from_ts),
                E'\\n      ],\\n      "total": ', sum(total), E'\\n    }}'
            ) as item
        from periods
        group by project_no, cloud, project_id, platform, resource_type, resource_id
    )"""

_STRANGE = f"""
    {_COSTS},

    judged as (
        select costs.*, count(*) over (partition by no, pricing_version, dimension) > 1 as is_repeated from costs
    )

    select concat(
        u.cloud, '/', u.project_id, ' ', u.resource_type, ' ', u.resource_id, ' from ', {_instant("u.from_ts")}, ': ',
        dimension, ' is ', concat_ws(
            ' and ',
            case when is_negative then trim_scale(quantity) || ' at ' || amount || ', and usage is never negative' end,
            case when is_foreign then 'rated in ' || currency || ', and the bill in ' || %(currency)s end,
            case when place is null then 'not priced by version ' || pricing_version end,
            case when is_repeated then 'rated twice' end
        )
    )
    from judged
    inner join usage_records as u on u.no = judged.no
    where is_negative or is_foreign or place is null or is_repeated
    order by judged.no, judged.dimension
    limit 20"""
