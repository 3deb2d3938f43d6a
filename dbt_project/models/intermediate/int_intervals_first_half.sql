{{ config(
    materialized='incremental', incremental_strategy='replace_changed',
    incremental_predicates=['old.to_ts is null or old.to_ts >= changed.since'],
    indexes=[{'columns': ['resource_id', 'resource_type', 'cloud', 'to_ts']}]
) }}
-- The timelines of one half of the resources (macros/timelines.sql): those of changed ones go on from where they changed.
-- depends_on: {{ ref('int_void_events') }}
{{ timelines_of_half(0) }}
