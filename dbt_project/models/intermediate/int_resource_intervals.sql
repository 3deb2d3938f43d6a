{{ config(
    materialized='incremental', incremental_strategy='append',
    pre_hook='{{ forget_changed_resources() }}', post_hook='{{ remember_derived() }}',
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'lifetime_no', 'from_ts']}]
) }}
-- The timelines: one row per interval of constant (size, state, project_id) in each life of each resource
-- (rules 8 to 10). to_ts is null while the life is open. The last configuration of a life is kept even if its
-- length is zero (from_ts = to_ts): the projection is compared with it, and usage passes it over.
with events as (
    select events.*
    from {{ ref('stg_events') }} as events
    {{ of_changed_resources('events') }}
    where
        events.effect in ('create', 'update', 'delete')
        and {{ is_not_void('events') }}
),

instants as (
    select
        *,
        -- An instant with both a create and a delete leaves the resource as open or closed as it was before.
        bool_or(effect = 'create') over instant and bool_or(effect = 'delete') over instant as recreates
    from events
    window instant as (partition by cloud, resource_type, resource_id, timestamp)
),

-- What has a say in whether the resource is open: the last create or delete before, or else that it began with an
-- update. Of one instant without a re-creation, creates alone or deletes alone remain, so instant and kind make the key.
ordered as (
    select
        *,
        row_number() over before as position,
        lag(timestamp) over before is distinct from timestamp as first_of_instant,
        coalesce(
            max(
                case
                    when recreates then null
                    when effect = 'create' then (extract(epoch from timestamp) * 1000000)::bigint * 2 + 1
                    when effect = 'delete' then (extract(epoch from timestamp) * 1000000)::bigint * 2
                end
            ) over before % 2 <> 0,
            first_value(effect) over before = 'update',
            false
        ) as was_open
    from instants
    window before as (
        partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id
        rows between unbounded preceding and 1 preceding
    )
),

judged as (
    select
        *,
        -- A re-creation of an open resource ends the old life by opening the new one.
        (effect = 'update' and position = 1)
        or (effect = 'create' and case when recreates then first_of_instant else not was_open end) as opens,
        effect = 'delete' and recreates <> was_open as closes
    from ordered
),

-- Carried forward as the greatest (position, value): the event that opens a life always has a value, so nothing
-- crosses from one life to the next.
lived as (
    select
        *,
        sum(opens::integer) over life as lifetime_no,
        max(
            case
                when opens then lpad(position::text, 10, '0') || coalesce(size, '{}')::text
                when size is not null then lpad(position::text, 10, '0') || size::text
            end collate "C"
        ) over life as carried_size,
        max(
            case
                when opens then lpad(position::text, 10, '0') || coalesce(state, 'unknown')
                when state is not null then lpad(position::text, 10, '0') || state
            end collate "C"
        ) over life as carried_state
    from judged
    where opens or closes or (effect <> 'delete' and (was_open or recreates))
    window life as (partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id)
),

bounded as (
    select
        cloud, platform, resource_type, resource_id, lifetime_no, project_id,
        timestamp, effect_rank, event_id, closes,
        lifetime_no = 1 and first_value(effect) over life = 'update' as open_left,
        lead(timestamp) over life as to_ts,
        lead(event_id) over life as to_event_id,
        coalesce(lead(closes) over life or lead(lifetime_no) over life <> lifetime_no, true) as last_of_life,
        substr(carried_size, 11) as size,
        substr(carried_state, 11) as state
    from lived
    window life as (partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id)
),

-- Zero length vanishes first, then equal neighbours of one life coalesce. Sizes of one text are equal; of different
-- texts (4 and 4.0) the values decide.
compared as (
    select
        *,
        coalesce(
            lag(lifetime_no) over life <> lifetime_no
            or lag(project_id) over life <> project_id
            or lag(state) over life <> state
            or (lag(size) over life <> size and (lag(size) over life)::jsonb <> size::jsonb),
            true
        ) as starts
    from bounded
    where not closes and (timestamp is distinct from to_ts or last_of_life)
    window life as (partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id)
),

edges as (
    select
        *,
        coalesce(lead(starts) over life, true) as ends
    from compared
    window life as (partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id)
),

coalesced as (
    select
        *,
        case when ends then to_ts else lead(to_ts) over life end as ends_at,
        case when ends then to_event_id else lead(to_event_id) over life end as end_event_id
    from edges
    where starts or ends
    window life as (partition by cloud, resource_type, resource_id order by timestamp, effect_rank, event_id)
)

select
    cloud, platform, resource_type, resource_id, lifetime_no, open_left, project_id, state,
    size::jsonb as size,
    timestamp as from_ts, ends_at as to_ts, event_id as from_event_id, end_event_id as to_event_id
from coalesced
where starts
