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

select distinct events.cloud, events.resource_type, events.resource_id
from {{ source('raw', 'events') }} as events
inner join run on events.load_id <= run.load_id
inner join derived on events.load_id > derived.load_id
