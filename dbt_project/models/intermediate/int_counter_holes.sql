{{ config(unlogged=true) }}
-- Spans without a sample that are longer than the source lets pass, while the resource was alive (in a state in which
-- samples are expected) and within the period at least in part. Between two samples of a series the series decides;
-- before the first and after the last of them, any series of the resource: a series may end while another goes on.
with run as (
    select * from {{ ref('stg_runs') }}
),

sources as (
    select
        source, platform, resource_type, clouds, states, max_gap, fetch_id,
        tstzrange(reach_from, reach_to) as reach
    from {{ ref('stg_counter_sources') }}
    where failure is null
),

expected as (
    select
        {{ resource('intervals') }}, sources.source, sources.platform, sources.fetch_id, sources.reach, sources.max_gap,
        range_agg(tstzrange(intervals.from_ts, intervals.to_ts) * sources.reach) as alive
    from sources
    inner join {{ ref('int_resource_intervals') }} as intervals
        on
            sources.platform = intervals.platform and sources.resource_type = intervals.resource_type
            and intervals.cloud = any(sources.clouds)
            and (sources.states is null or intervals.state = any(sources.states))
            and (intervals.to_ts is null or intervals.from_ts < intervals.to_ts)
            and tstzrange(intervals.from_ts, intervals.to_ts) && sources.reach
    {{ of_metered_resources('intervals') }}
    group by
        intervals.cloud, intervals.resource_type, intervals.resource_id,
        sources.source, sources.platform, sources.fetch_id, sources.reach, sources.max_gap
),

sampled as (
    select
        {{ resource('series') }}, series.fetch_id, series.source,
        range_agg(tstzrange(series.first_at, series.last_at, '[]')) as span
    from {{ source('raw', 'counter_series') }} as series
    inner join run on series.fetch_id = run.counter_fetch_id
    group by series.cloud, series.resource_type, series.resource_id, series.fetch_id, series.source
),

gaps as (
    select
        {{ resource('gaps') }}, gaps.fetch_id, gaps.source,
        range_agg(tstzrange(gaps.from_ts, gaps.to_ts)) as span
    from {{ source('raw', 'counter_gaps') }} as gaps
    inner join run on gaps.fetch_id = run.counter_fetch_id
    group by gaps.cloud, gaps.resource_type, gaps.resource_id, gaps.fetch_id, gaps.source
),

holes as (
    select
        {{ resource('expected') }}, expected.platform, expected.source, expected.max_gap,
        unnest(
            expected.alive
            * (
                (tstzmultirange(expected.reach) - coalesce(sampled.span, '{}'))
                + coalesce(gaps.span, '{}')
            )
        ) as hole
    from expected
    left join sampled using (cloud, resource_type, resource_id, fetch_id, source)
    left join gaps using (cloud, resource_type, resource_id, fetch_id, source)
)

select
    {{ resource('holes') }}, holes.platform, holes.source, holes.max_gap,
    lower(holes.hole) as from_ts, upper(holes.hole) as to_ts
from holes
cross join run
where
    upper(holes.hole) - lower(holes.hole) > holes.max_gap
    and holes.hole && tstzrange(run.period_from, run.metered_to)
