{{ config(materialized='table', unlogged=true, post_hook='{{ refresh_statistics() }}') }}
-- What each event type does, as of the registry version of the run. A table: joined with every event, its size matters
-- to the planner.
with lifecycles as (
    select * from {{ source('raw', 'lifecycles') }}
),

current_versions as (
    select types.platform, types.resource_type, max(types.version) as version
    from {{ source('raw', 'resource_types') }} as types
    inner join {{ ref('stg_runs') }} as run on types.version <= run.registry_version
    group by types.platform, types.resource_type
)

select lifecycles.platform, lifecycles.resource_type, lifecycles.event_type, lifecycles.effect, lifecycles.state
from lifecycles
inner join current_versions using (platform, resource_type, version)
