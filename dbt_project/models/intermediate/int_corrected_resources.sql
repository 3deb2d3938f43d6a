{{ config(unlogged=true, indexes=[{'columns': ['cloud', 'resource_type', 'resource_id'], 'unique': true}]) }}
-- What a correction derives again, if its scope is 'changed': resources with events that the finalized records of the
-- period do not know and that can change them, or with other counters, if those were fetched again. None of a regular
-- run. An event after the period changes nothing in it, but where it decides whether a synthetic event is void, or to
-- which life a sample belongs: months later, nearly every resource has one.
with run as (
    select runs.*, corrected.counter_fetch_id as former_fetch_id
    from {{ ref('stg_runs') }} as runs
    inner join {{ source('ledger', 'runs') }} as corrected
        on corrected.period = runs.period and corrected.status = 'finalized' and corrected.load_id = runs.since_load_id
),

events as (
    select
        events.cloud, events.resource_type, events.resource_id, events.timestamp,
        run.period_to, run.counter_fetch_id
    from {{ source('raw', 'events') }} as events
    inner join run on events.load_id <= run.load_id and events.load_id > run.since_load_id
),

counters as (
    select
        increments.cloud, increments.resource_type, increments.resource_id, increments.fetch_id,
        md5(string_agg(
            row(
                increments.source, increments.series_id, increments.since, increments.at, increments.quantity
            )::text, ','
            order by increments.source, increments.series_id, increments.part
        )) as content
    from {{ source('raw', 'counter_increments') }} as increments
    inner join run
        on
            run.counter_fetch_id <> run.former_fetch_id
            and increments.fetch_id in (run.counter_fetch_id, run.former_fetch_id)
    group by increments.cloud, increments.resource_type, increments.resource_id, increments.fetch_id
)

select events.cloud, events.resource_type, events.resource_id
from events
where events.timestamp <= events.period_to
union
select events.cloud, events.resource_type, events.resource_id
from events
where
    exists (
        select from {{ source('raw', 'events') }} as synthetic
        where
            {{ same_resource('synthetic', 'events') }}
            and synthetic.source = 'reconciliation' and synthetic.timestamp <= events.period_to
    )
union
select events.cloud, events.resource_type, events.resource_id
from events
where
    exists (
        select from {{ source('raw', 'counter_increments') }} as sampled
        where {{ same_resource('sampled', 'events') }} and sampled.fetch_id = events.counter_fetch_id
    )
union
select cloud, resource_type, resource_id
from counters
group by cloud, resource_type, resource_id
having count(*) = 1 or min(content) <> max(content)
