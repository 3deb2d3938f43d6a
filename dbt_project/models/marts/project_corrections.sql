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
        live.run_id, live.period, runs.finalized_at as corrected_at, runs.reason, versions.currency
    from live
    inner join {{ source('completed', 'runs') }} as runs on runs.id = live.run_id and runs.kind = 'correction'
    inner join {{ source('ledger', 'pricing_versions') }} as versions on versions.version = runs.pricing_version
),

run_versions as (
    select run_id, string_agg(pricing_version, ', ' order by from_ts) as pricing_versions
    from {{ source('completed', 'run_prices') }}
    group by run_id
),

-- Usage has no currency and no version of its own: it is told beside the costs by the prices of the correction.
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

costs_by_version as (
    select
        runs.run_id, records.cloud, records.project_id, records.currency, records.pricing_version,
        count(*) filter (where records.sign = -1) as reversed_records,
        count(*) filter (where records.sign = 1) as new_records,
        sum(records.amount) as amount
    from {{ source('ledger', 'rated_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by runs.run_id, records.cloud, records.project_id, records.currency, records.pricing_version
),

costs as (
    select
        costs.run_id, costs.cloud, costs.project_id, costs.currency,
        string_agg(costs.pricing_version, ', ' order by versions.valid_from, versions.version) as pricing_versions,
        sum(costs.reversed_records) as reversed_records, sum(costs.new_records) as new_records,
        sum(costs.amount) as amount
    from costs_by_version as costs
    inner join {{ source('ledger', 'pricing_versions') }} as versions on versions.version = costs.pricing_version
    group by costs.run_id, costs.cloud, costs.project_id, costs.currency
),

changes as (
    select
        run_id, cloud, project_id, currency, costs.pricing_versions,
        coalesce(usage.reversed_records, 0) + coalesce(costs.reversed_records, 0) as reversed_records,
        coalesce(usage.new_records, 0) + coalesce(costs.new_records, 0) as new_records,
        coalesce(usage.signed_us, 0) as signed_us,
        coalesce(costs.amount, 0.00) as amount
    from usage
    full join costs using (run_id, cloud, project_id, currency)
)

select
    changes.run_id, runs.period, runs.corrected_at, runs.reason,
    coalesce(changes.pricing_versions, run_versions.pricing_versions) as pricing_versions, changes.cloud,
    changes.project_id, changes.reversed_records::bigint as reversed_records,
    changes.new_records::bigint as new_records,
    {{ round_half_up('changes.signed_us', 60000000, 6) }} as minutes, changes.amount::numeric(18, 2) as amount,
    changes.currency
from changes
inner join runs on changes.run_id = runs.run_id
inner join run_versions on changes.run_id = run_versions.run_id
