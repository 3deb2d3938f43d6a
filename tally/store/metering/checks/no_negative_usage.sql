-- No quantity and no length of a usage record is negative or empty of time.
-- Remedy: an event carries a negative number; tighten the size schema of its resource type, then correct the resource.
select
    cloud, resource_type, resource_id as subject,
    'the record from ' || from_ts || ' has ' || length_us || ' us and usage ' || usage as detail
from metering.int_usage_records
where run_id = :run_id and (length_us <= 0 or jsonb_path_exists(usage, '$.* ? (@ < 0)'))
