{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_replaced_runs() }}',
    indexes=[{'columns': ['run_id', 'cloud', 'project_id', 'resource_type', 'dimension', 'currency'], 'unique': true}]
) }}
-- Costs by month and project, as billed and exact. Their difference is the drift of rounding. Only live runs.
with runs as (
    {{ new_live_runs() }}
),

-- A cloud belongs to exactly one platform.
costs as (
    select
        records.run_id, records.cloud, records.project_id, min(records.platform) as platform, records.resource_type,
        records.dimension, sum(records.amount) as amount, sum(records.amount_exact) as amount_exact, records.currency
    from {{ source('ledger', 'rated_records') }} as records
    where {{ is_of_new_live_run('records') }}
    group by
        records.run_id, records.cloud, records.project_id, records.resource_type, records.dimension, records.currency
)

select
    costs.run_id, runs.period, costs.cloud, costs.project_id, costs.platform, costs.resource_type,
    costs.dimension, costs.amount, costs.amount_exact, costs.amount - costs.amount_exact as drift, costs.currency
from costs
inner join runs on costs.run_id = runs.run_id
