{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_changed_resources() }}',
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'lifetime_no'], 'unique': true}]
) }}
-- The lives of each resource, those of zero length included. closed_at is null while a life is open.
with intervals as (
    select intervals.*
    from {{ of_changed_resources(ref('int_resource_intervals'), 'intervals') }}
)

select
    cloud, platform, resource_type, resource_id, lifetime_no,
    bool_or(open_left) as open_left,
    min(from_ts) as opened_at,
    case when bool_or(to_ts is null) then null else max(to_ts) end as closed_at
from intervals
group by cloud, platform, resource_type, resource_id, lifetime_no
