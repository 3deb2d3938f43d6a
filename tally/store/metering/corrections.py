"""What a correction writes: reversals of effective records that no longer hold, and the records that hold instead.

Effective are the records of the finalized runs of the period that nothing has reversed. Two records of a resource are
the same if they say the same of the same time: a usage record goes by interval, state, project and usage; a rated one
by its usage record or the part of it, dimension, quantity, price, modifiers and amount. Which life a record is of, and
which events bound it, may differ: nobody is billed for that.
"""

from uuid import UUID

from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering.effective import RATED, USAGE
from tally.store.metering.runs import members
from tally.store.statistics import analyze

# So many that whoever reads them next, in the same run, must not plan for a handful.
_MANY = 1000


# What a run that corrects some resources only looks at.
_CHANGED = """inner join metering.int_corrected_resources as changed
            on changed.cloud = effective.cloud and changed.resource_type = effective.resource_type
                and changed.resource_id = effective.resource_id"""

# Former records (side -1) and fresh ones (side 1) that say the same come in pairs, the others alone. They are counted
# in windows and not joined: of how many records there are, the planner knows next to nothing.
_USAGE_COMPARED = f"""
    sides as (
        select -1 as side, effective.cloud, effective.platform, effective.resource_type, effective.resource_id,
            effective.id, effective.project_id, effective.state, effective.lifetime_no, effective.from_ts,
            effective.to_ts, effective.from_event_id, effective.to_event_id, effective.usage, effective.counters
        from {USAGE} as effective
        {{in_scope}}
        union all
        select 1, cloud, platform, resource_type, resource_id, id, project_id, state, lifetime_no, from_ts,
            to_ts, from_event_id, to_event_id, usage, array(select jsonb_object_keys(derived.counters))
        from metering.int_usage_records as derived
        where run_id = %(run_id)s
    ),

    compared as (
        select *, count(*) over same as times, first_value(id) over (same order by side) as of_record_id
        from sides
        window same as (partition by cloud, resource_type, resource_id, from_ts, to_ts, project_id, state, usage)
    )"""

_USAGE = f"""
    with {_USAGE_COMPARED}

    insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, reverses_id,
        project_id, state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage, counters)
    select cloud, platform, resource_type, resource_id,
        case side when 1 then id else md5(row(%(run_id)s::uuid, id)::text)::uuid end, %(run_id)s, side,
        case side when -1 then id end, project_id, state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id,
        case side when 1 then usage else (
            select jsonb_object_agg(
                metric.key,
                case when jsonb_typeof(metric.value) = 'number' then to_jsonb(-metric.value::numeric)
                    else metric.value end
            )
            from jsonb_each(usage) as metric
        ) end,
        counters
    from compared
    where times = 1"""

# A reversal takes the rated records of its usage record along. Where usage is the same, what it costs is compared: it
# differs if another price version was named.
_RATED = f"""
    with {_USAGE_COMPARED},

    rated_sides as (
        select -1 as side, coalesce(reversal.id, effective.usage_record_id) as of_record_id, effective.cloud,
            effective.platform, effective.resource_type, effective.resource_id, effective.id, effective.project_id,
            effective.dimension, effective.quantity, effective.price, effective.state_modifier,
            effective.type_modifier, effective.amount_exact, effective.amount, effective.currency,
            effective.pricing_version, effective.basis, effective.from_ts, effective.to_ts
        from {RATED} as effective
        {{in_scope}}
        left join ledger.usage_records as reversal
            on reversal.cloud = effective.cloud and reversal.resource_type = effective.resource_type
                and reversal.resource_id = effective.resource_id
                and reversal.reverses_id = effective.usage_record_id and reversal.run_id = %(run_id)s
        union all
        select 1, compared.of_record_id, rated.cloud, rated.platform, rated.resource_type, rated.resource_id,
            rated.id, rated.project_id, rated.dimension, rated.quantity, rated.price, rated.state_modifier,
            rated.type_modifier, rated.amount_exact, rated.amount, rated.currency, rated.pricing_version, rated.basis,
            rated.from_ts, rated.to_ts
        from metering.int_rated_records as rated
        inner join compared
            on compared.cloud = rated.cloud and compared.resource_type = rated.resource_type
                and compared.resource_id = rated.resource_id and compared.id = rated.usage_record_id
        where rated.run_id = %(run_id)s and compared.side > 0
    ),

    rated_compared as (
        select *, count(*) over (
            partition by cloud, resource_type, resource_id, of_record_id, dimension, quantity, price, state_modifier,
                type_modifier, amount_exact, amount, currency, pricing_version, from_ts, to_ts
        ) as times
        from rated_sides
    )

    insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id, sign,
        reverses_id, project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount,
        currency, pricing_version, basis, from_ts, to_ts)
    select cloud, platform, resource_type, resource_id,
        case side when 1 then id else md5(row(%(run_id)s::uuid, id)::text)::uuid end, %(run_id)s, of_record_id, side,
        case side when -1 then id end, project_id, dimension, side * quantity, price, state_modifier, type_modifier,
        side * amount_exact, side * amount, currency, pricing_version, basis, from_ts, to_ts
    from rated_compared
    where times = 1"""


def write_usage(connection: Connection, run: Run, former_run_id: UUID) -> int:
    """Write what differs from the usage that counts as of a finalized run; returns how many records that are."""
    return _write(connection, "usage_records", _USAGE, run, former_run_id)


def write_rated(connection: Connection, run: Run, former_run_id: UUID) -> int:
    """Write what differs in costs, after the usage of the run is written; returns how many records that are."""
    return _write(connection, "rated_records", _RATED, run, former_run_id)


def _write(connection: Connection, table: str, statement: str, run: Run, former_run_id: UUID) -> int:
    query = statement.format(in_scope=_CHANGED if run.scope == "changed" else "")
    parameters = {"run_id": run.id, "members": members(connection, former_run_id)}
    count = connection.execute(query.encode(), parameters).rowcount
    if count > _MANY:
        analyze(connection, f"ledger.{table}")
    return count
