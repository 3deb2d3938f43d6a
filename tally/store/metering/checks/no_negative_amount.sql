-- No amount, price, modifier or quantity of a regular run is negative: only reversals are. And no amount has more than
-- the 16 digits before the point that the ledger has room for.
-- Remedy: a price or a modifier of the price version is negative, or a quantity is beyond reason; publish a mended version, one with a monthly_cap for what is beyond reason, then close again.
select
    cloud, resource_type, resource_id as subject,
    dimension || ' of record ' || usage_record_id || ': ' || amount || ' (' || amount_exact || ') for ' || quantity
    as detail
from metering.int_rated_records
where
    run_id = :run_id
    and (
        amount < 0 or amount >= 1e16 or amount_exact < 0 or quantity < 0
        or price < 0 or state_modifier < 0 or type_modifier < 0
    )
