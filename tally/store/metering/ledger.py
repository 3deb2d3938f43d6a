"""Writing the records of a run into the ledger, and their fingerprint. Source: dbt's tables of the running run.

Keeping the indexes takes one session most of the time, so that two write, each one half of the resources, in a
transaction of its own. If one fails, what the other has written is of a run that fails with it.

What was written is analyzed at once: what reads it next, in the same run, would else plan for an empty table.
"""

from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

from tally.store.database import Connection, beside
from tally.store.statistics import analyze

_USAGE = """
    insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign, project_id, state,
        lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage, counters)
    select cloud, platform, resource_type, resource_id, id, run_id, 1, project_id, state,
        lifetime_no, from_ts, to_ts, from_event_id, to_event_id, usage,
        case when counters = '{}' then '{}' else array(select jsonb_object_keys(counters)) end
    from metering.int_usage_records where run_id = %(run_id)s and (hashtext(resource_id) < 0) = %(half)s"""

_RATED = """
    insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
        project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount, currency,
        pricing_version, basis, from_ts, to_ts)
    select cloud, platform, resource_type, resource_id, id, run_id, usage_record_id,
        project_id, dimension, quantity, price, state_modifier, type_modifier, amount_exact, amount, currency,
        pricing_version, basis, from_ts, to_ts
    from metering.int_rated_records where run_id = %(run_id)s and (hashtext(resource_id) < 0) = %(half)s"""

# By content, not by id, so that a replay of the same inputs has the same fingerprint. Hashed in buckets of
# resources: one text of all records would outgrow what a value can hold. A row's text quotes its parts, so that no
# name can pass for two; it is converted, not cast: a cast would read a backslash in a name as an escape, or refuse it.
# Each part is hashed where it is read, which is done in parallel.
_FINGERPRINT = """
    with digests as (
        select substr(md5(concat_ws('|', cloud, resource_type, resource_id)), 1, 3) as bucket,
            sha256(convert_to(row(cloud, resource_type, resource_id, lifetime_no, extract(epoch from from_ts),
                extract(epoch from to_ts), project_id, state, usage)::text, 'UTF8')) as digest
        from ledger.usage_records where run_id = %(run_id)s
        union all
        select substr(md5(concat_ws('|', r.cloud, r.resource_type, r.resource_id)), 1, 3),
            sha256(convert_to(row(r.cloud, r.resource_type, r.resource_id, u.lifetime_no,
                extract(epoch from coalesce(r.from_ts, u.from_ts)), r.dimension, r.quantity, r.price,
                r.state_modifier, r.type_modifier, r.amount_exact, r.amount, r.currency)::text, 'UTF8'))
        from ledger.rated_records as r
        inner join ledger.usage_records as u
            on u.cloud = r.cloud and u.resource_type = r.resource_type and u.resource_id = r.resource_id
            and u.id = r.usage_record_id
        where r.run_id = %(run_id)s
        union all
        select substr(md5(concat_ws('|', cloud, project_id)), 1, 3),
            sha256(convert_to(row(cloud, project_id, sign, relation_id, place, type, relation_type, source_cloud,
                source_project_id, target_cloud, target_project_id, target_name, scope, trim_scale(rate), description,
                base, amount, currency)::text, 'UTF8'))
        from ledger.adjustments where run_id = %(run_id)s
    ),

    buckets as (
        select bucket, sha256(string_agg(digest, ''::bytea order by digest)) as digest
        from digests group by bucket
    )

    select encode(sha256(coalesce(string_agg(digest, ''::bytea order by bucket), ''::bytea)), 'hex') from buckets"""


def write_usage(connection: Connection, run_id: UUID) -> int:
    """Write the usage records of the running run, of which there are none yet; returns how many."""
    return _write(connection, "usage_records", _USAGE, run_id)


def write_rated(connection: Connection, run_id: UUID) -> int:
    """Write the rated records of the running run, after all of its usage; returns how many."""
    return _write(connection, "rated_records", _RATED, run_id)


def _write(connection: Connection, table: str, statement: str, run_id: UUID) -> int:
    with (
        beside(connection) as other,
        ThreadPoolExecutor(max_workers=1) as thread,
        other.transaction(),
        connection.transaction(),
    ):
        half = thread.submit(other.execute, statement.encode(), {"run_id": run_id, "half": True})
        written = connection.execute(statement.encode(), {"run_id": run_id, "half": False}).rowcount
        written += half.result().rowcount
    analyze(connection, f"ledger.{table}")
    return written


def fingerprint(connection: Connection, run_id: UUID) -> str:
    """Hash of all usage and rated records and adjustments of a run, by content."""
    with connection.transaction():
        # The lines are made and sorted by all processors, but where handing them on was thought to cost more than that.
        connection.execute("set local parallel_tuple_cost = 0")
        row = connection.execute(_FINGERPRINT, {"run_id": run_id}).fetchone()
    assert row is not None
    return str(row[0])
