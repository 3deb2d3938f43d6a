-- Each boundary of a usage record is an event of its resource at that instant, or an edge of the metered period.
-- Remedy: the record refers to an event that is not there; derive the resource again with `tally rebuild --timelines`, then close again.
with run as (
    select * from ledger.runs where id = :run_id
),

boundaries as not materialized (
    select
        records.cloud, records.resource_type, records.resource_id, records.from_ts as boundary,
        records.from_event_id as event_id, run.period_from as edge
    from metering.int_usage_records as records
    inner join run on records.run_id = run.id
    union all
    select
        records.cloud, records.resource_type, records.resource_id, records.to_ts,
        records.to_event_id, run.metered_to
    from metering.int_usage_records as records
    inner join run on records.run_id = run.id
)

select
    cloud, resource_type, resource_id as subject,
    'the boundary at ' || boundary || ' names no event and is no edge of the period' as detail
from boundaries
where event_id is null and boundary <> edge
union all
select
    boundaries.cloud, boundaries.resource_type, boundaries.resource_id,
    'the boundary at ' || boundaries.boundary || ' names event ' || boundaries.event_id
    || ', which the resource does not have at that instant'
from boundaries
where
    boundaries.event_id is not null
    and not exists (
        select from raw.events
        inner join run
            on events.load_id <= run.load_id and events.timestamp between run.period_from and run.metered_to
        where
            events.cloud = boundaries.cloud and events.resource_type = boundaries.resource_type
            and events.resource_id = boundaries.resource_id and events.timestamp = boundaries.boundary
            and events.event_id = boundaries.event_id
    )
