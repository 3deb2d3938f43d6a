-- What sampled counters gained, one row per sample that shows a gain. since is the sample before; null for the first
-- sample of a series, whose quantity is then all that it shows.
select
    increments.cloud, increments.resource_type, increments.resource_id,
    sources.source, increments.series_id, sources.metric,
    gained.since, gained.timestamp, gained.quantity
from {{ source('raw', 'counter_increments') }} as increments
inner join {{ ref('stg_counter_sources') }} as sources
    on increments.fetch_id = sources.fetch_id and increments.source = sources.source
cross join unnest(increments.since, increments.at, increments.quantity) as gained (since, timestamp, quantity)
