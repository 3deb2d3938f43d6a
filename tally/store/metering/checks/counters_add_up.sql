-- What the counters of a resource gained within the month is what its usage records hold of them together.
-- Remedy: the records lost or doubled usage at a split or at an edge; report it with the named resource.
with run as (
    select * from ledger.runs where id = :run_id
),

-- Usage at the end of the month belongs to it only where the life ends there, and at its beginning only where it goes on.
gained as (
    select
        increments.cloud, increments.resource_type, increments.resource_id, increments.metric,
        sum(increments.quantity) as quantity
    from metering.int_usage_increments as increments
    cross join run
    where
        (increments.timestamp < run.metered_to or increments.closed_at = run.metered_to)
        and (increments.closed_at is null or increments.closed_at > run.period_from)
    group by increments.cloud, increments.resource_type, increments.resource_id, increments.metric
),

recorded as (
    select
        records.cloud, records.resource_type, records.resource_id, counter.key as metric,
        sum(counter.value::numeric) as quantity
    from metering.int_usage_records as records
    cross join jsonb_each_text(records.counters) as counter
    where records.run_id = :run_id and records.counters <> '{}'
    group by records.cloud, records.resource_type, records.resource_id, counter.key
)

select
    cloud, resource_type, resource_id as subject,
    metric || ' gained ' || coalesce(trim_scale(gained.quantity), 0) || ', but the records say '
    || coalesce(trim_scale(recorded.quantity), 0) as detail
from gained
full join recorded using (cloud, resource_type, resource_id, metric)
where gained.quantity is distinct from recorded.quantity
