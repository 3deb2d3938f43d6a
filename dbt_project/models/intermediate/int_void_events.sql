{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_changed_resources() }}',
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'timestamp', 'event_id'], 'unique': true}]
) }}
-- Synthetic events that the collector's own events void (rule 9): they count as absent everywhere.
with events as not materialized (
    select events.*
    from {{ of_changed_resources(ref('stg_events'), 'events') }}
    where events.effect_rank is not null
),

reconciled_resources as (
    select distinct cloud, resource_type, resource_id
    from events
    where synthetic and effect in ('create', 'delete')
),

judged as (
    select
        events.cloud, events.resource_type, events.resource_id, events.timestamp, events.event_id,
        events.effect, events.synthetic,
        raw.following(events.effect, events.synthetic) over (
            partition by events.cloud, events.resource_type, events.resource_id
            order by events.timestamp desc, events.effect_rank desc, events.event_id desc
            rows between unbounded preceding and 1 preceding
        ) as following
    from events
    inner join reconciled_resources using (cloud, resource_type, resource_id)
)

select cloud, resource_type, resource_id, timestamp, event_id
from judged
where
    synthetic
    and ((effect = 'create' and following & 1 = 1) or (effect = 'delete' and following & 2 = 2))
