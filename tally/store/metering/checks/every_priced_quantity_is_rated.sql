-- Each priced metric that a usage record holds as a number has exactly one rated record, and nothing else has one.
-- Remedy: the rating model and the price version disagree; report it with the named record.
with run as (
    select * from ledger.runs where id = :run_id
),

prices as (
    select prices.* from ledger.prices inner join run on prices.version = run.pricing_version
),

balance as (
    select records.cloud, records.resource_type, records.resource_id, records.id, prices.metric, 1 as side
    from metering.int_usage_records as records
    inner join prices on records.platform = prices.platform and records.resource_type = prices.resource_type
    where records.run_id = :run_id and jsonb_typeof(records.usage -> prices.metric) = 'number'
    union all
    select cloud, resource_type, resource_id, usage_record_id, dimension, -1
    from metering.int_rated_records
    where run_id = :run_id
)

select
    cloud, resource_type, resource_id as subject,
    metric || ' of record ' || id || ' has ' || count(*) filter (where side = -1) || ' rated records, expected '
    || count(*) filter (where side = 1) as detail
from balance
group by cloud, resource_type, resource_id, id, metric
having sum(side) <> 0
