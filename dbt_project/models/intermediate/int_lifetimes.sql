{{ config(
    materialized='incremental', incremental_strategy='replace_changed',
    incremental_predicates=['old.closed_at is null or old.closed_at >= changed.since'],
    indexes=[{'columns': ['resource_id', 'resource_type', 'cloud', 'lifetime_no'], 'unique': true}]
) }}
-- The lives of each resource, those of zero length included. closed_at is null while a life is open. Of a changed resource,
-- those that had ended before it changed stay, and one that went on keeps its beginning, however many intervals ago.
with lives as (
    select
        intervals.cloud, intervals.platform, intervals.resource_type, intervals.resource_id, intervals.lifetime_no,
        bool_or(intervals.open_left) as open_left,
        min(intervals.from_ts) as opened_at,
        case when bool_or(intervals.to_ts is null) then null else max(intervals.to_ts) end as closed_at
    from {{ of_changed_resources(
        ref('int_resource_intervals'), 'intervals', 'found.to_ts is null or found.to_ts >= changed.since'
    ) }}
    group by
        intervals.cloud, intervals.platform, intervals.resource_type, intervals.resource_id, intervals.lifetime_no
)

{% if is_incremental() -%}
select
    lives.cloud, lives.platform, lives.resource_type, lives.resource_id, lives.lifetime_no, lives.open_left,
    coalesce(former.opened_at, lives.opened_at) as opened_at, lives.closed_at
from lives
inner join {{ ref('int_changed_resources') }} as changed using (cloud, resource_type, resource_id)
left join {{ this }} as former
    on
        {{ same_resource('former', 'lives') }}
        and former.lifetime_no = lives.lifetime_no and former.opened_at < changed.since
{%- else -%}
select * from lives
{%- endif %}
