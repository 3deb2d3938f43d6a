{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_replaced_runs() }}',
    indexes=[{'columns': ['run_id', 'cloud', 'project_id', 'currency'], 'unique': true}]
) }}
-- What each correction has changed, by project: records taken back and written, minutes and amounts added or taken.
with live as (
    {{ new_live_runs() }}
),

runs as (
    select
        live.run_id, live.period, runs.finalized_at as corrected_at, runs.reason, runs.pricing_version,
        versions.currency
    from live
    inner join {{ source('completed', 'runs') }} as runs on runs.id = live.run_id and runs.kind = 'correction'
    inner join {{ source('ledger', 'pricing_versions') }} as versions on versions.version = runs.pricing_version
),

-- Usage has no currency of its own: it is told beside the costs by the prices of the correction.
usage as (
    select
        runs.run_id, records.cloud, records.project_id, runs.currency,
        count(*) filter (where records.sign = -1) as reversed_records,
        count(*) filter (where records.sign = 1) as new_records,
        sum((records.sign * {{ microseconds('records.from_ts', 'records.to_ts') }})::numeric) as signed_us
    from {{ source('ledger', 'usage_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by runs.run_id, records.cloud, records.project_id, runs.currency
),

costs as (
    select
        runs.run_id, records.cloud, records.project_id, records.currency,
        count(*) filter (where records.sign = -1) as reversed_records,
        count(*) filter (where records.sign = 1) as new_records,
        sum(records.amount) as amount
    from {{ source('ledger', 'rated_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by runs.run_id, records.cloud, records.project_id, records.currency
),

changes as (
    select
        run_id, cloud, project_id, currency,
        coalesce(usage.reversed_records, 0) + coalesce(costs.reversed_records, 0) as reversed_records,
        coalesce(usage.new_records, 0) + coalesce(costs.new_records, 0) as new_records,
        coalesce(usage.signed_us, 0) as signed_us,
        coalesce(costs.amount, 0.00) as amount
    from usage
    full join costs using (run_id, cloud, project_id, currency)
)

select
    changes.run_id, runs.period, runs.corrected_at, runs.reason, runs.pricing_version, changes.cloud,
    changes.project_id, changes.reversed_records, changes.new_records,
    {{ round_half_up('changes.signed_us', 60000000, 6) }} as minutes, changes.amount::numeric(18, 2) as amount,
    changes.currency
from changes
inner join runs on changes.run_id = runs.run_id
