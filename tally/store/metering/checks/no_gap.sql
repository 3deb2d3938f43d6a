-- Within a life, each usage record begins where the one before it ended.
-- Remedy: the timeline of the resource lost an interval; derive it again with `tally rebuild --timelines`, then close again.
with neighbours as (
    select
        cloud, resource_type, resource_id, lifetime_no, from_ts,
        lag(to_ts) over (
            partition by resource_id, resource_type, cloud, lifetime_no order by from_ts
        ) as former_to_ts
    from metering.int_usage_records
    where run_id = :run_id
)

select
    cloud, resource_type, resource_id as subject,
    'life ' || lifetime_no || ' has a gap from ' || former_to_ts || ' to ' || from_ts as detail
from neighbours
where from_ts > former_to_ts
