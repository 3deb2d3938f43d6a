-- The price versions of the run that is being made, each with the part of the month that it prices: mostly one row.
select pricing_version, from_ts, to_ts
from {{ source('ledger', 'run_prices') }}
where run_id = '{{ var("run_id") }}'
