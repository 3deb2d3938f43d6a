{{ config(
    unlogged=true,
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'timestamp', 'event_id', 'metric'], 'unique': true}]
) }}
-- Counter increments that events brought into a life, from the start of the period to its end, both included: usage
-- at the instant at which a life ends belongs to its last interval, also at the period's end (rule 15). A life of
-- zero length has no interval that could take any.
with run as (
    select * from {{ ref('stg_runs') }}
),

events as (
    select
        events.*,
        -- Only the first of several deletes ends a life; what the others bring comes after it.
        events.effect = 'delete' and row_number() over (
            partition by {{ resource('events') }}, events.timestamp, events.effect order by events.event_id
        ) > 1 as too_late
    from {{ ref('stg_events') }} as events
    inner join run on events.timestamp between run.period_from and run.metered_to
    {{ of_metered_resources('events') }}
    where
        (events.usage is not null or events.effect = 'delete')
        and {{ is_not_void('events') }}
),

-- Where one life ends as the next begins, usage comes before the end, a create or an update after the beginning.
in_lives as (
    select distinct on ({{ resource('events') }}, events.timestamp, events.event_id)
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.usage,
        lifetimes.lifetime_no, lifetimes.opened_at, lifetimes.closed_at
    from events
    inner join {{ ref('int_lifetimes') }} as lifetimes
        on
            {{ same_resource('lifetimes', 'events') }}
            and lifetimes.opened_at <= events.timestamp
            and (lifetimes.closed_at is null or events.timestamp <= lifetimes.closed_at)
    where events.usage is not null and not events.too_late
    order by
        {{ resource('events') }}, events.timestamp, events.event_id,
        case when events.effect in ('usage', 'delete') then lifetimes.lifetime_no else -lifetimes.lifetime_no end
)

select
    in_lives.cloud, in_lives.platform, in_lives.resource_type, in_lives.resource_id,
    in_lives.timestamp, in_lives.event_id, in_lives.lifetime_no, in_lives.closed_at,
    increment.key as metric,
    increment.value::numeric as quantity
from in_lives
cross join jsonb_each_text(in_lives.usage) as increment
where in_lives.closed_at is null or in_lives.opened_at < in_lives.closed_at
