-- The projection current_resources, copied in the snapshot of the events, is the last configuration of each timeline.
-- Remedy: rebuild the projection from the events with `tally rebuild`, then close again; if it stays, derive the timelines again with `tally rebuild --timelines`.
with last_lives as (
    select distinct on (lives.resource_id, lives.resource_type, lives.cloud)
        lives.cloud, lives.resource_type, lives.resource_id, lives.lifetime_no, lives.opened_at
    from metering.int_lifetimes as lives
    /* of_metered_resources(lives) */
    order by lives.resource_id, lives.resource_type, lives.cloud, lives.lifetime_no desc
),

timelines as (
    select
        last_lives.cloud, last_lives.resource_type, last_lives.resource_id, last_lives.opened_at,
        configuration.project_id, configuration.state, configuration.size, configuration.to_ts as closed_at
    from last_lives
    cross join lateral (
        select intervals.project_id, intervals.state, intervals.size, intervals.to_ts
        from metering.int_resource_intervals as intervals
        where
            intervals.cloud = last_lives.cloud and intervals.resource_type = last_lives.resource_type
            and intervals.resource_id = last_lives.resource_id and intervals.lifetime_no = last_lives.lifetime_no
        order by intervals.to_ts desc, intervals.from_ts desc
        limit 1
    ) as configuration
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
