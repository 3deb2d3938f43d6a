{{ config(
    materialized='incremental', incremental_strategy='append', pre_hook='{{ forget_replaced_runs() }}',
    indexes=[{'columns': ['run_id', 'cloud', 'project_id', 'platform', 'resource_type', 'metric', 'unit'], 'unique': true}]
) }}
-- Usage by month and project: minutes of existence, gauges weighed by hours, counters summed. Only live runs.
with runs as (
    {{ new_live_runs() }}
),

records as (
    select
        records.run_id, records.cloud, records.project_id, records.platform, records.resource_type,
        records.sign, records.usage, records.counters,
        {{ microseconds('records.from_ts', 'records.to_ts') }} as length_us
    from {{ source('ledger', 'usage_records') }} as records
    where {{ is_of_new_live_run('records') }}
),

-- Each record has its minutes, rounded: its exact length is counted for them. A reversal holds negated values over a
-- positive length; its minutes are negated by its sign.
metered as (
    select
        records.run_id, records.cloud, records.project_id, records.platform, records.resource_type,
        metric.key as metric,
        case
            when metric.key = 'minutes' then 'minutes'
            when metric.key = any(records.counters) then 'units'
            else 'gauge_hours'
        end as unit,
        sum(
            case
                when metric.key = 'minutes' then (records.sign * records.length_us)::numeric
                when metric.key = any(records.counters) then metric.value::numeric
                else metric.value::numeric * records.length_us
            end
        ) as numerator
    from records
    cross join lateral jsonb_each(records.usage) as metric
    where jsonb_typeof(metric.value) = 'number' and metric.key <> 'count'
    group by records.run_id, records.cloud, records.project_id, records.platform, records.resource_type, metric.key, 7
)

select
    metered.run_id, runs.period, metered.cloud, metered.project_id, metered.platform, metered.resource_type,
    metered.metric, metered.unit,
    case
        when metered.unit = 'minutes' then {{ round_half_up('metered.numerator', 60000000, 6) }}
        when metered.unit = 'gauge_hours' then {{ round_half_up('metered.numerator', 3600000000, 12) }}
        else metered.numerator
    end as quantity
from metered
inner join runs on metered.run_id = runs.run_id
