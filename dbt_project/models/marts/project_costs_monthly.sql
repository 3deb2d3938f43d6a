{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_replaced_runs() }}',
    indexes=[{'columns': ['run_id', 'cloud', 'project_id', 'resource_type', 'dimension', 'currency'], 'unique': true}]
) }}
-- Costs by month and project, as billed and exact. Their difference is the drift of rounding. Only live runs.
with runs as (
    {{ new_live_runs() }}
),

-- A cloud belongs to exactly one platform.
platforms as (
    select records.run_id, records.cloud, min(records.platform) as platform
    from {{ source('ledger', 'usage_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by records.run_id, records.cloud
),

costs as (
    select
        records.run_id, runs.period, records.cloud, records.project_id, records.resource_type, records.dimension,
        records.currency, sum(records.amount) as amount, sum(records.amount_exact) as amount_exact
    from {{ source('ledger', 'rated_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by
        records.run_id, runs.period, records.cloud, records.project_id, records.resource_type, records.dimension,
        records.currency
)

select
    costs.run_id, costs.period, costs.cloud, costs.project_id, platforms.platform, costs.resource_type,
    costs.dimension, costs.amount, costs.amount_exact, costs.amount - costs.amount_exact as drift, costs.currency
from costs
inner join platforms on costs.run_id = platforms.run_id and costs.cloud = platforms.cloud
