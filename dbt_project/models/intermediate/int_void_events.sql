{{ config(
    materialized='incremental', incremental_strategy='replace_changed',
    indexes=[{'columns': ['resource_id', 'resource_type', 'cloud', 'timestamp', 'event_id'], 'unique': true}]
) }}
-- Synthetic events that the collector's own events void (rule 9): they count as absent everywhere. Nothing is void before
-- the first of them, and what is goes by what comes later: earlier history is not asked.
with reconciled_resources as (
    select events.cloud, events.resource_type, events.resource_id, min(events.timestamp) as first_at
    from {{ of_changed_resources(ref('stg_events'), 'events', 'found.synthetic') }}
    where events.synthetic and events.effect in ('create', 'delete')
    group by events.cloud, events.resource_type, events.resource_id
),

judged as (
    select
        events.cloud, events.resource_type, events.resource_id, events.timestamp, events.event_id,
        events.effect, events.synthetic,
        raw.following(events.effect, events.synthetic) over (
            partition by {{ by_resource('events') }}
            order by events.timestamp desc, events.effect_rank desc, events.event_id desc
            rows between unbounded preceding and 1 preceding
        ) as following
    from reconciled_resources
    cross join lateral (
        select found.*
        from {{ ref('stg_events') }} as found
        where
            {{ same_resource('found', 'reconciled_resources') }}
            and found.timestamp >= reconciled_resources.first_at
        offset 0
    ) as events
    where events.effect_rank is not null
)

select cloud, resource_type, resource_id, timestamp, event_id
from judged
where
    synthetic
    and ((effect = 'create' and following & 1 = 1) or (effect = 'delete' and following & 2 = 2))
