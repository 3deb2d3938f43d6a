-- The events of the run, each with its effect and with the size, state and usage that rule 5 lets it carry. States
-- are lower case, as in the price list. The sum keeps the index events_arrival out: beside the key of a resource the
-- planner would read all of that index, once for each resource.
with events as (
    select events.*
    from {{ source('raw', 'events') }} as events
    inner join {{ ref('stg_runs') }} as run on events.load_id + 0 <= run.load_id
),

lifecycles as (
    select * from {{ ref('stg_lifecycles') }}
)

select
    events.cloud,
    events.platform,
    events.resource_type,
    events.resource_id,
    events.timestamp,
    events.event_id,
    events.event_type,
    events.project_id,
    events.source = 'reconciliation' as synthetic,
    -- An event type that a later version of the registry dropped is not guessed at: it becomes a finding.
    coalesce(lifecycles.effect, 'unknown') as effect,
    case
        when lifecycles.effect = 'create' then 0
        when lifecycles.effect = 'update' then 1
        when lifecycles.effect = 'usage' then 2
        when lifecycles.effect = 'delete' then 3
    end as effect_rank,
    case when lifecycles.effect in ('create', 'update') then nullif(events.payload -> 'size', 'null') end as size,
    case
        when lifecycles.effect in ('create', 'update')
            then coalesce(lower((events.payload ->> 'state') collate "C"), lifecycles.state)
    end as state,
    case when lifecycles.effect <> 'ignore' then nullif(events.payload -> 'usage', 'null') end as usage,
    events.load_id
from events
left join lifecycles using (platform, resource_type, event_type)
