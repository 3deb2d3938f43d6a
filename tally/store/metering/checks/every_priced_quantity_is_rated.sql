-- Each priced metric that a usage record holds as a number has exactly one rated record, and nothing else has one, in a
-- month in which prices do not change.
-- Remedy: the rating model and the price version disagree; report it with the named record.
with run as not materialized (
    select * from ledger.runs where id = :run_id and price_changes = '[]'
),

expected as not materialized (
    select records.cloud, records.resource_type, records.resource_id, records.id, prices.metric
    from metering.int_usage_records as records
    inner join run on records.run_id = run.id
    inner join ledger.prices as prices
        on
            prices.version = run.pricing_version and prices.platform = records.platform
            and prices.resource_type = records.resource_type
    where jsonb_typeof(records.usage -> prices.metric) = 'number'
),

rated as not materialized (
    select rated.cloud, rated.resource_type, rated.resource_id, rated.usage_record_id as id, rated.dimension as metric
    from metering.int_rated_records as rated
    inner join run on rated.run_id = run.id
)

select
    cloud, resource_type, resource_id as subject,
    metric || ' of record ' || id || ' has ' || count(rated.id) || ' rated records, expected ' || count(expected.id)
    as detail
from expected
full join rated using (cloud, resource_type, resource_id, id, metric)
where expected.id is null or rated.id is null
group by cloud, resource_type, resource_id, id, metric
union all
-- Where each has its counterpart, none has two if there are as many on both sides.
select
    cloud, resource_type, resource_id,
    metric || ' of record ' || id || ' has ' || count(*) || ' rated records, expected 1'
from rated
where (select count(*) from rated) <> (select count(*) from expected)
group by cloud, resource_type, resource_id, id, metric
having count(*) > 1
