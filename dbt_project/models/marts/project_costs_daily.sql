{{ config(materialized='view') }}
-- Costs by day in the zone of the installation. A view, since it is far larger than what it is made from: asked for a
-- project or a month, it reads no more than that.
with runs as (
    select runs.id as run_id, runs.period, runs.zone
    from {{ source('completed', 'runs') }} as runs
    where runs.status in ('completed', 'finalized')
),

-- What a usage record, or the part of it that a price pays for, costs with all corrections of its price. One that is
-- taken back is a record again, negated.
costs as (
    select
        runs.period, runs.zone, records.cloud, records.project_id, records.platform, records.resource_type,
        records.resource_id, records.usage_record_id, records.from_ts as part_from_ts, records.to_ts as part_to_ts,
        records.currency, sum(records.amount) as amount
    from {{ source('ledger', 'rated_records') }} as records
    inner join runs on records.run_id = runs.run_id
    group by
        runs.period, runs.zone, records.cloud, records.project_id, records.platform, records.resource_type,
        records.resource_id, records.usage_record_id, records.from_ts, records.to_ts, records.currency
),

-- A correction may rate anew what an earlier run of the period has metered.
spans as (
    select
        costs.*, coalesce(costs.part_from_ts, usage_records.from_ts) as from_ts,
        coalesce(costs.part_to_ts, usage_records.to_ts) as to_ts
    from costs
    inner join runs on runs.period = costs.period
    inner join {{ source('ledger', 'usage_records') }} as usage_records
        on
            {{ same_resource('usage_records', 'costs') }}
            and usage_records.id = costs.usage_record_id and usage_records.run_id = runs.run_id
),

timed as (
    select
        *, (from_ts at time zone zone)::date as first_day,
        ((to_ts - interval '1 microsecond') at time zone zone)::date as last_day
    from spans
),

-- The first day begins with the record and the last one ends with it, wherever a zone puts midnight.
days as (
    select
        timed.*, of_month.day::date as day,
        case
            when of_month.day::date = timed.first_day then timed.from_ts
            else of_month.day at time zone timed.zone
        end as day_from,
        case
            when of_month.day::date = timed.last_day then timed.to_ts
            else (of_month.day + interval '1 day') at time zone timed.zone
        end as day_to
    from timed
    cross join lateral generate_series(
        timed.first_day::timestamp, timed.last_day::timestamp, interval '1 day'
    ) as of_month (day)
),

-- Rounded is what has come together up to the end of a day, and a day gets what that adds: no cent is lost.
split as (
    select
        days.*,
        {{ share('amount', microseconds('from_ts', 'day_to'), microseconds('from_ts', 'to_ts')) }}
        - {{ share('amount', microseconds('from_ts', 'day_from'), microseconds('from_ts', 'to_ts')) }} as share
    from days
)

select
    period, day, cloud, project_id, platform, resource_type,
    sum(share)::numeric(18, 2) as amount, currency
from split
group by period, day, cloud, project_id, platform, resource_type, currency
