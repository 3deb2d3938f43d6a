-- Each boundary of a usage record is an event of its resource at that instant, or an edge of the metered period; and the
-- event that it begins with says whose it is.
-- Remedy: the record refers to an event that is not there; derive the resource again with `tally rebuild --timelines`, then close again.
with run as not materialized (
    select * from ledger.runs where id = :run_id
),

boundaries as (
    select
        records.cloud, records.resource_type, records.resource_id, boundary.instant, boundary.event_id, boundary.edge,
        boundary.project_id
    from metering.int_usage_records as records
    inner join run on records.run_id = run.id
    cross join lateral (
        values (records.from_ts, records.from_event_id, run.period_from, records.project_id),
            (records.to_ts, records.to_event_id, run.metered_to, null)
    ) as boundary (instant, event_id, edge, project_id)
),

arrived as (
    select
        events.cloud, events.resource_type, events.resource_id, events.timestamp, events.event_id, events.project_id
    from raw.events
    inner join run on events.load_id <= run.load_id and events.timestamp between run.period_from and run.metered_to
)

select
    boundaries.cloud, boundaries.resource_type, boundaries.resource_id as subject,
    'the boundary at ' || boundaries.instant
    || case
        when arrived.event_id is not null
            then
                ' names event ' || boundaries.event_id || ' of ' || arrived.project_id || ', not of '
                || boundaries.project_id
        when boundaries.event_id is not null
            then ' names event ' || boundaries.event_id || ', which the resource does not have at that instant'
        else ' names no event and is no edge of the period'
    end as detail
from boundaries
left join arrived
    on
        arrived.cloud = boundaries.cloud and arrived.resource_type = boundaries.resource_type
        and arrived.resource_id = boundaries.resource_id and arrived.timestamp = boundaries.instant
        and arrived.event_id = boundaries.event_id
where
    (arrived.event_id is null and (boundaries.event_id is not null or boundaries.instant <> boundaries.edge))
    or arrived.project_id <> boundaries.project_id
