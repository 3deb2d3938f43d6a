{{ config(materialized='view') }}
-- The timelines of all resources: both halves.
select * from {{ ref('int_intervals_first_half') }}
union all
select * from {{ ref('int_intervals_second_half') }}
