{{ config(unlogged=true, indexes=[{'columns': ['cloud', 'resource_type', 'resource_id'], 'unique': true}]) }}
-- Resources with events that the timelines do not hold yet; all of them after a change of the registry (rule 12).
with run as (
    select * from {{ ref('stg_runs') }}
),

derived as (
    select case when derived.registry_version = run.registry_version then derived.load_id else 0 end as load_id
    from {{ source('raw', 'derived') }} as derived
    cross join run
)

-- Offset: else the planner would read the history first, and then look which of it is new.
select distinct events.cloud, events.resource_type, events.resource_id
from run
cross join derived
cross join lateral (
    select arrived.cloud, arrived.resource_type, arrived.resource_id
    from {{ source('raw', 'events') }} as arrived
    where arrived.load_id > derived.load_id and arrived.load_id <= run.load_id
    offset 0
) as events
