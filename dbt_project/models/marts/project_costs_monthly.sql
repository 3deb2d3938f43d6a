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
        records.run_id, runs.period, records.cloud, records.project_id, min(records.platform) as platform,
        records.resource_type, records.dimension, sum(records.amount) as amount,
        sum(records.amount_exact) as amount_exact, records.currency
    from {{ source('ledger', 'rated_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by
        records.run_id, runs.period, records.cloud, records.project_id, records.resource_type, records.dimension,
        records.currency
)

select
    run_id, period, cloud, project_id, platform, resource_type,
    dimension, amount, amount_exact, amount - amount_exact as drift, currency
from costs
