{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_changed_resources() }}',
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'lifetime_no', 'from_ts']}]
) }}
-- The timelines of one half of the resources (macros/timelines.sql): those of changed ones are derived again.
{{ timelines(of_changed_resources(ref('stg_events'), 'events', in_half(0, 'changed')), in_half(0, 'events')) }}
