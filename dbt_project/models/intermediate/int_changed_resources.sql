{{ config(unlogged=true, indexes=[{'columns': ['resource_id', 'resource_type', 'cloud'], 'unique': true}]) }}
-- Resources with events that the timelines do not hold yet; all of them after a change of the registry (rule 12). since:
-- what a resource was before that instant stands. It is that of the earliest of these events, or of the first that
-- reconciliation told of the resource, which any later event could make void or count again (rule 9).
with run as (
    select * from {{ ref('stg_runs') }}
),

derived as (
    select case when derived.registry_version = run.registry_version then derived.load_id else 0 end as load_id
    from {{ source('raw', 'derived') }} as derived
    cross join run
),

-- Offset: else the planner would read the history first, and then look which of it is new.
changed as (
    select events.cloud, events.resource_type, events.resource_id, min(events.timestamp) as changed_at
    from run
    cross join derived
    cross join lateral (
        select arrived.cloud, arrived.resource_type, arrived.resource_id, arrived.timestamp
        from {{ source('raw', 'events') }} as arrived
        where arrived.load_id > derived.load_id and arrived.load_id <= run.load_id
        offset 0
    ) as events
    group by events.cloud, events.resource_type, events.resource_id
)

select
    changed.cloud, changed.resource_type, changed.resource_id,
    case
        when derived.load_id = 0 then '-infinity'
        else
            least(
                changed.changed_at,
                (
                    select min(told.timestamp)
                    from {{ source('raw', 'events') }} as told
                    where {{ same_resource('told', 'changed') }} and told.source = 'reconciliation'
                )
            )
    end as since
from changed
cross join derived
