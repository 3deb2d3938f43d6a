-- The run that is being made: one row.
select
    id as run_id,
    period,
    period_from,
    period_to,
    metered_to,
    load_id,
    since_load_id,
    registry_version,
    pricing_version,
    counter_fetch_id
from {{ source('ledger', 'runs') }}
where id = '{{ var("run_id") }}'
