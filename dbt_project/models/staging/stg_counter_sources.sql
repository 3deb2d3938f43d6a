-- The sources of sampled counters that were fetched for the run. Fetched is from reach_from, before the period, until
-- reach_to, after it.
select
    sources.source, sources.platform, sources.resource_type, sources.metric, sources.clouds, sources.states,
    sources.max_gap, sources.reach_from, sources.reach_to, sources.failure, sources.fetch_id
from {{ source('raw', 'counter_sources') }} as sources
inner join {{ ref('stg_runs') }} as run on sources.fetch_id = run.counter_fetch_id
