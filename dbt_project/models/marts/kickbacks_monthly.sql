{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_replaced_runs() }}',
    indexes=[{'columns': ['run_id', 'partner_cloud', 'partner_project_id', 'cloud', 'project_id', 'currency'], 'unique': true}]
) }}
-- What is owed to partners by month and billed project. Only live runs; a correction adds what it takes back and writes.
with runs as (
    {{ new_live_runs() }}
)

select
    lines.run_id, runs.period, lines.target_cloud as partner_cloud, lines.target_project_id as partner_project_id,
    min(lines.target_name) as partner_name, lines.cloud, lines.project_id, sum(lines.amount) as amount, lines.currency
from {{ source('completed', 'adjustments') }} as lines
inner join runs on lines.run_id = runs.run_id
where lines.type = 'kickback'
group by
    lines.run_id, runs.period, lines.target_cloud, lines.target_project_id, lines.cloud, lines.project_id,
    lines.currency
