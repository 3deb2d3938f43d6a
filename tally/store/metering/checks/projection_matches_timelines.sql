-- The projection current_resources, copied in the snapshot of the events, is the last configuration of each timeline.
-- Remedy: rebuild the projection from the events, then close again; if it stays, derive the timelines again with `dbt run --full-refresh`.
with last_lives as (
    select
        intervals.cloud, intervals.resource_type, intervals.resource_id,
        lifetime_no, from_ts, to_ts, project_id, state, size,
        -- Over the rows of the last life, as long as they come first: where place is 1, its beginning.
        min(from_ts) over life as opened_at,
        row_number() over (
            partition by intervals.cloud, intervals.resource_type, intervals.resource_id
            order by lifetime_no desc, from_ts desc
        ) as place
    from metering.int_resource_intervals as intervals
    /* of_metered_resources(intervals) */
    window life as (
        partition by intervals.cloud, intervals.resource_type, intervals.resource_id order by lifetime_no desc
    )
),

timelines as (
    select cloud, resource_type, resource_id, project_id, state, size, opened_at, to_ts as closed_at
    from last_lives
    where place = 1
),

projected as (
    select current_resources.*
    from raw.current_resources
    /* of_metered_resources(current_resources) */
    where created_at is not null
)

select
    cloud, resource_type, resource_id as subject,
    case
        when projected.created_at is null then 'has a timeline, but is not in the projection'
        when timelines.opened_at is null then 'is in the projection, but has no timeline'
        else
            'projection: '
            || concat_ws(', ', projected.project_id, projected.last_state, projected.size,
                projected.created_at, projected.deleted_at)
            || '; timeline: '
            || concat_ws(', ', timelines.project_id, timelines.state, timelines.size,
                timelines.opened_at, timelines.closed_at)
    end as detail
from timelines
full join projected using (cloud, resource_type, resource_id)
where
    (timelines.opened_at, timelines.closed_at) is distinct from (projected.created_at, projected.deleted_at)
    or timelines.project_id is distinct from projected.project_id
    or timelines.state is distinct from projected.last_state
    or timelines.size is distinct from projected.size
