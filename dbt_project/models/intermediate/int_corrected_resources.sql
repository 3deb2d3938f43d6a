{{ config(unlogged=true, indexes=[{'columns': ['resource_id', 'resource_type', 'cloud'], 'unique': true}]) }}
-- What a correction derives again, if its scope is 'changed': resources with events that the finalized records of the
-- period do not know and that can change them, or with other counters, if those were fetched again. None of a regular
-- run. An event after the period changes nothing in it, but where it decides whether a synthetic event is void, or to
-- which life a sample belongs: months later, nearly every resource has one. Where a price counts what a project uses
-- together, what one resource costs goes by the others: all that share a group with a changed one are derived again,
-- and all that share one with those.
with recursive run as (
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
                increments.source, sources.metric, increments.series_id, increments.since, increments.at,
                increments.quantity
            )::text, ','
            order by increments.source, increments.series_id, increments.part
        )) as content
    from {{ source('raw', 'counter_increments') }} as increments
    inner join {{ source('raw', 'counter_sources') }} as sources
        on sources.fetch_id = increments.fetch_id and sources.source = increments.source
    inner join run
        on
            run.counter_fetch_id <> run.former_fetch_id
            and increments.fetch_id in (run.counter_fetch_id, run.former_fetch_id)
    group by increments.cloud, increments.resource_type, increments.resource_id, increments.fetch_id
),

changed as (
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
),

-- Resource types of which a price of the run adds up what a project uses.
shared as (
    select distinct prices.platform, prices.resource_type
    from {{ source('ledger', 'prices') }} as prices
    inner join {{ ref('stg_run_prices') }} as parts on parts.pricing_version = prices.version
    where prices.tier_group = 'project'
),

-- Who was whose in the month: by the timelines, and of changed resources also by what counted before.
memberships as (
    select intervals.cloud, intervals.resource_type, intervals.resource_id, intervals.project_id
    from {{ ref('int_resource_intervals') }} as intervals
    inner join shared using (platform, resource_type)
    inner join run
        on intervals.from_ts < run.period_to and (intervals.to_ts is null or intervals.to_ts > run.period_from)
    union
    select records.cloud, records.resource_type, records.resource_id, records.project_id
    from {{ source('ledger', 'finalized_usage_records') }} as records
    inner join shared using (platform, resource_type)
    inner join changed using (cloud, resource_type, resource_id)
    inner join {{ source('ledger', 'runs') }} as former on former.id = records.run_id
    inner join run on former.period = run.period and former.status = 'finalized'
),

groups as (
    select memberships.cloud, memberships.resource_type, memberships.project_id
    from memberships
    inner join changed using (cloud, resource_type, resource_id)
    union
    select others.cloud, others.resource_type, others.project_id
    from groups
    inner join memberships as members using (cloud, resource_type, project_id)
    inner join memberships as others
        on
            others.cloud = members.cloud and others.resource_type = members.resource_type
            and others.resource_id = members.resource_id
)

select cloud, resource_type, resource_id
from changed
union
select memberships.cloud, memberships.resource_type, memberships.resource_id
from memberships
inner join groups using (cloud, resource_type, project_id)
