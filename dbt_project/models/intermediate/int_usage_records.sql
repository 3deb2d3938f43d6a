{{ config(
    unlogged=true, meta={'dagster': {'asset_key': ['usage']}},
    indexes=[{'columns': ['resource_id', 'resource_type', 'cloud', 'lifetime_no', 'from_ts'], 'unique': true}]
) }}
-- Usage of the period: the intervals clipped to it, with their exact length, gauges and counters (rules 13 to 15).
with run as (
    select * from {{ ref('stg_runs') }}
),

clipped as not materialized (
    select
        intervals.cloud, intervals.platform, intervals.resource_type, intervals.resource_id,
        intervals.lifetime_no, intervals.project_id, intervals.state, intervals.size,
        run.run_id,
        greatest(intervals.from_ts, run.period_from) as from_ts,
        least(intervals.to_ts, run.metered_to) as to_ts,
        case when intervals.from_ts >= run.period_from then intervals.from_event_id end as from_event_id,
        case when intervals.to_ts <= run.metered_to then intervals.to_event_id end as to_event_id
    from {{ ref('int_resource_intervals') }} as intervals
    inner join run
        on
            intervals.from_ts < run.metered_to
            and (intervals.to_ts is null or intervals.to_ts > run.period_from)
    {{ of_metered_resources('intervals') }}
    where intervals.to_ts is null or intervals.from_ts < intervals.to_ts
),

counted as (
    select
        {{ resource('clipped') }}, clipped.lifetime_no, clipped.from_ts, increments.metric,
        sum(increments.quantity) as quantity
    from clipped
    inner join {{ ref('int_usage_increments') }} as increments
        on
            {{ gained_within('increments', 'clipped') }}
    group by {{ resource('clipped') }}, clipped.lifetime_no, clipped.from_ts, increments.metric
),

counters as (
    select
        cloud, resource_type, resource_id, lifetime_no, from_ts,
        jsonb_object_agg(metric, trim_scale(quantity)) as counters
    from counted
    group by cloud, resource_type, resource_id, lifetime_no, from_ts
),

measured as (
    select
        clipped.*,
        {{ microseconds('clipped.from_ts', 'clipped.to_ts') }} as length_us,
        coalesce(counters.counters, '{}') as counters
    from clipped
    left join counters using (cloud, resource_type, resource_id, lifetime_no, from_ts)
)

select
    cloud, platform, resource_type, resource_id,
    {{ derived_id(
        ['run_id', 'cloud', 'resource_type', 'resource_id', 'lifetime_no', 'extract(epoch from from_ts)']
    ) }} as id,
    run_id, lifetime_no, project_id, state, from_ts, to_ts, from_event_id, to_event_id, length_us, size, counters,
    -- A counter takes the place of an attribute of its name, which is a finding (ambiguous_metric).
    -- Minutes are for reading: whole if whole, else half-up to 6 decimals by integer division. Rating uses length_us.
    jsonb_build_object('minutes', trim_scale(((length_us + 30) / 60)::numeric / 1000000), 'count', 1)
    || size || counters as usage
from measured
