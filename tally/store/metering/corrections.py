"""What a correction writes: reversals of effective records that no longer hold, and the records that hold instead.

Effective are the records of the finalized runs of the period that nothing has reversed. Two records of a resource are
the same if they say the same of the same time: a usage record goes by interval, state, project and usage; a rated one
by its usage record, dimension, quantity, price, modifiers and amount. Which life a record is of, and which events bound
it, may differ: nobody is billed for that.
"""

from uuid import UUID

from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering.effective import RATED, USAGE, members

# So many that whoever reads them next, in the same run, must not plan for a handful.
_MANY = 1000


def _same_resource(one: str, other: str) -> str:
    columns = ("cloud", "resource_type", "resource_id")
    return " and ".join(f"{one}.{column} = {other}.{column}" for column in columns)


# What a run that corrects some resources only looks at.
_CHANGED = f"inner join metering.int_corrected_resources as changed on {_same_resource('changed', 'effective')}"

_SAME_USAGE = f"""
    {_same_resource("derived", "effective")}
    and derived.from_ts = effective.from_ts and derived.to_ts = effective.to_ts
    and derived.project_id = effective.project_id and derived.state = effective.state
    and derived.usage = effective.usage"""

_USAGE = f"""
    with effective as (
        select effective.*
        from {USAGE} as effective
        {{in_scope}}
    ),

    derived as (
        select * from metering.int_usage_records where run_id = %(run_id)s
    ),

    reversals as (
        insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, reverses_id,
            project_id, state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage, counters)
        select cloud, platform, resource_type, resource_id, md5(row(%(run_id)s::uuid, id)::text)::uuid,
            %(run_id)s, -1, id, project_id, state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id,
            (
                select jsonb_object_agg(
                    metric.key,
                    case when jsonb_typeof(metric.value) = 'number' then to_jsonb(-metric.value::numeric)
                        else metric.value end
                )
                from jsonb_each(effective.usage) as metric
            ),
            counters
        from effective
        where not exists (select from derived where {_SAME_USAGE})
        returning 1
    ),

    news as (
        insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, project_id,
            state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage, counters)
        select cloud, platform, resource_type, resource_id, id, run_id, 1, project_id,
            state, lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage,
            array(select jsonb_object_keys(derived.counters))
        from derived
        where not exists (select from effective where {_SAME_USAGE})
        returning 1
    )

    select (select count(*) from reversals) + (select count(*) from news)"""

# A reversal takes the rated records of its usage record along. Where usage is the same, what it costs is compared: it
# differs if another price version was named.
_RATED = f"""
    with effective_usage as (
        select effective.*
        from {USAGE} as effective
        {{in_scope}}
    ),

    fresh as (
        select rated.*, coalesce(effective.id, rated.usage_record_id) as of_record_id
        from metering.int_rated_records as rated
        inner join metering.int_usage_records as derived
            on {_same_resource("derived", "rated")} and derived.id = rated.usage_record_id
        left join effective_usage as effective on {_SAME_USAGE}
        where rated.run_id = %(run_id)s
    ),

    former as (
        select effective.*, coalesce(reversal.id, effective.usage_record_id) as of_record_id
        from {RATED} as effective
        {{in_scope}}
        left join ledger.usage_records as reversal
            on {_same_resource("reversal", "effective")} and reversal.reverses_id = effective.usage_record_id
                and reversal.run_id = %(run_id)s
    ),

    same as (
        select former.cloud, former.resource_type, former.resource_id, former.id as former_id, fresh.id as fresh_id
        from former
        inner join fresh
            on {_same_resource("fresh", "former")}
                and fresh.of_record_id = former.of_record_id and fresh.dimension = former.dimension
                and fresh.quantity = former.quantity and fresh.price = former.price
                and fresh.state_modifier = former.state_modifier and fresh.type_modifier = former.type_modifier
                and fresh.amount_exact = former.amount_exact and fresh.amount = former.amount
                and fresh.currency = former.currency and fresh.pricing_version = former.pricing_version
    ),

    reversals as (
        insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
            sign, reverses_id, project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact,
            amount, currency, pricing_version)
        select cloud, platform, resource_type, resource_id, md5(row(%(run_id)s::uuid, id)::text)::uuid, %(run_id)s,
            of_record_id, -1, id, project_id, dimension, -quantity, price, state_modifier, type_modifier,
            -amount_exact, -amount, currency, pricing_version
        from former
        where not exists (select from same where {_same_resource("same", "former")} and same.former_id = former.id)
        returning 1
    ),

    news as (
        insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
            sign, project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount,
            currency, pricing_version)
        select cloud, platform, resource_type, resource_id, id, run_id, of_record_id,
            1, project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount,
            currency, pricing_version
        from fresh
        where not exists (select from same where {_same_resource("same", "fresh")} and same.fresh_id = fresh.id)
        returning 1
    )

    select (select count(*) from reversals) + (select count(*) from news)"""


def write_usage(connection: Connection, run: Run, former_run_id: UUID) -> int:
    """Write what differs from the usage that counts as of a finalized run; returns how many records that are."""
    return _write(connection, "usage_records", _USAGE, run, former_run_id)


def write_rated(connection: Connection, run: Run, former_run_id: UUID) -> int:
    """Write what differs in costs, after the usage of the run is written; returns how many records that are."""
    return _write(connection, "rated_records", _RATED, run, former_run_id)


def _write(connection: Connection, table: str, statement: str, run: Run, former_run_id: UUID) -> int:
    query = statement.format(in_scope=_CHANGED if run.scope == "changed" else "")
    parameters = {"run_id": run.id, "members": members(connection, former_run_id)}
    row = connection.execute(query.encode(), parameters).fetchone()
    assert row is not None
    if row[0] > _MANY:
        connection.execute(f"analyze ledger.{table}".encode())
    return int(row[0])
