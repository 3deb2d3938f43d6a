-- Each usage record counts its resource exactly once.
-- Remedy: a size or a counter named `count` has overridden it; mend the resource type in the registry, then close again.
select
    cloud, resource_type, resource_id as subject,
    'the record from ' || from_ts || ' has count ' || coalesce(usage ->> 'count', 'null') as detail
from metering.int_usage_records
where run_id = :run_id and (usage -> 'count') is distinct from '1'::jsonb
