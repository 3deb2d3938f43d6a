{{ config(unlogged=true, indexes=[{'columns': ['cloud', 'resource_type', 'resource_id'], 'unique': true}]) }}
-- Resources with events that the finalized records of the period do not know: what a correction derives again, if its
-- scope is 'changed'. None of a regular run.
select distinct events.cloud, events.resource_type, events.resource_id
from {{ source('raw', 'events') }} as events
inner join {{ ref('stg_runs') }} as run on events.load_id <= run.load_id and events.load_id > run.since_load_id
