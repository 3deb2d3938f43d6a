{{ config(
    unlogged=true,
    indexes=[
        {'columns': ['resource_id', 'resource_type', 'cloud', 'timestamp', 'event_id', 'metric'], 'unique': true},
    ]
) }}
-- What counters gained, each in the life of the resource that it belongs to, from the start of the period to its end,
-- both included: usage at the instant at which a life ends belongs to its last interval, also at the period's end
-- (rule 15). A life of zero length has no interval that could take any. From events, one row per event and metric; from
-- samples, one row per interval, source and metric, at the instant of the last of them; where prices change inside the
-- interval, one for each part of it.
{%- set parts, changing = ref('stg_run_prices'), prices_change() %}
with run as (
    select * from {{ ref('stg_runs') }}
),

events as (
    select
        events.*,
        -- Only the first of several deletes ends a life; what the others bring comes after it.
        events.effect = 'delete' and row_number() over (
            partition by {{ by_resource('events') }}, events.timestamp, events.effect order by events.event_id
        ) > 1 as too_late
    from {{ events_of_period('events') }}
    where
        (events.usage is not null or events.effect = 'delete')
        and {{ is_not_void('events') }}
),

-- Where one life ends as the next begins, usage comes before the end, a create or an update after the beginning.
in_lives as (
    select distinct on ({{ by_resource('events') }}, events.timestamp, events.event_id)
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
        {{ by_resource('events') }}, events.timestamp, events.event_id,
        case when events.effect in ('usage', 'delete') then lifetimes.lifetime_no else -lifetimes.lifetime_no end
),

sampled as (
    select sampled.*
    from {{ ref('stg_counter_increments') }} as sampled
    {{ of_metered_resources('sampled') }}
),

-- The lives of the resources that were sampled, each with its neighbours.
lives as (
    select
        lifetimes.*,
        lag(lifetimes.closed_at) over life as former_closed_at,
        lead(lifetimes.opened_at) over life as next_opened_at
    from {{ ref('int_lifetimes') }} as lifetimes
    inner join (select distinct cloud, resource_type, resource_id from sampled) as resources
        on {{ same_resource('lifetimes', 'resources') }}
    where lifetimes.closed_at is null or lifetimes.opened_at < lifetimes.closed_at
    window life as (
        partition by {{ by_resource('lifetimes') }} order by lifetimes.lifetime_no
    )
),

-- A gain that spans a deletion belongs to the life that ended. A first sample counts only in a life that began within
-- the period; else it is the baseline of its series.
sampled_in_lives as (
    select
        lives.cloud, lives.platform, lives.resource_type, lives.resource_id, lives.lifetime_no, lives.closed_at,
        sampled.source, sampled.metric, sampled.quantity,
        least(sampled.timestamp, lives.closed_at) as timestamp
    from sampled
    cross join run
    inner join lives
        on
            {{ same_resource('lives', 'sampled') }}
            and lives.opened_at <= sampled.timestamp
            and case
                when sampled.since is null
                    then
                        lives.opened_at >= run.period_from and not lives.open_left
                        and (lives.next_opened_at is null or lives.next_opened_at > sampled.timestamp)
                else
                    (lives.closed_at is null or lives.closed_at > sampled.since)
                    and (lives.former_closed_at is null or lives.former_closed_at <= sampled.since)
            end
),

sampled_in_intervals as (
    select
        sampled.cloud, sampled.platform, sampled.resource_type, sampled.resource_id,
        max(sampled.timestamp) as timestamp,
        sampled.lifetime_no, sampled.closed_at, sampled.source, sampled.metric,
        sum(sampled.quantity) as quantity
    from sampled_in_lives as sampled
    cross join run
    inner join {{ ref('int_resource_intervals') }} as intervals
        on
            {{ same_resource('intervals', 'sampled') }}
            and intervals.lifetime_no = sampled.lifetime_no
            and intervals.from_ts <= sampled.timestamp
            and (
                intervals.to_ts is null
                or sampled.timestamp < intervals.to_ts
                or (sampled.timestamp = intervals.to_ts and intervals.to_ts = sampled.closed_at)
            )
            and (intervals.to_ts is null or intervals.from_ts < intervals.to_ts)
    where
        sampled.timestamp >= run.period_from
        and (sampled.closed_at is null or sampled.closed_at > run.period_from)
        and (
            sampled.timestamp < run.metered_to
            or (sampled.timestamp = run.metered_to and sampled.closed_at = run.metered_to)
        )
    group by
        sampled.cloud, sampled.platform, sampled.resource_type, sampled.resource_id, sampled.lifetime_no,
        sampled.closed_at, sampled.source, sampled.metric, intervals.from_ts
        {%- if changing %},
        (select count(*) from {{ parts }} as parts where parts.from_ts <= sampled.timestamp)
        {%- endif %}
)

select
    in_lives.cloud, in_lives.platform, in_lives.resource_type, in_lives.resource_id,
    in_lives.timestamp, in_lives.event_id, in_lives.lifetime_no, in_lives.closed_at,
    null::text as counter_source,
    increment.key as metric,
    increment.value::numeric as quantity
from in_lives
cross join jsonb_each_text(in_lives.usage) as increment
where in_lives.closed_at is null or in_lives.opened_at < in_lives.closed_at
union all
select
    cloud, platform, resource_type, resource_id, timestamp, null as event_id, lifetime_no, closed_at,
    source as counter_source, metric, quantity
from sampled_in_intervals
