{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_changed_resources() }}',
    indexes=[{'columns': ['cloud', 'resource_type', 'resource_id', 'lifetime_no', 'from_ts']}]
) }}
-- The timelines of all resources (macros/timelines.sql): those of changed ones are put in the place of the former ones.
with halves as (
    select * from {{ ref('int_timelines_first_half') }}
    union all
    select * from {{ ref('int_timelines_second_half') }}
)

select halves.*
from halves
{{ of_changed_resources('halves') }}
