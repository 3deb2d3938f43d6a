-- No instant of a resource is in two usage records, whatever their lives.
-- Remedy: the timeline of the resource holds an interval twice; derive it again with `tally rebuild --timelines`, then close again.
with neighbours as (
    select
        cloud, resource_type, resource_id, from_ts,
        max(to_ts) over (
            partition by resource_id, resource_type, cloud order by from_ts, to_ts
            rows between unbounded preceding and 1 preceding
        ) as covered_to
    from metering.int_usage_records
    where run_id = :run_id
)

select
    cloud, resource_type, resource_id as subject,
    'a record begins at ' || from_ts || ', but ' || covered_to || ' was covered already' as detail
from neighbours
where from_ts < covered_to
