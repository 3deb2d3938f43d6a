-- Each priced metric that a usage record holds as a number has exactly one rated record, of the same project and in the
-- currency of the prices, and nothing else has one, in a month in which prices do not change. Both sides are added up, as
-- many as they are and as hashes, in whatever order they lie; they are compared one by one only to name what differs.
-- Remedy: the rating model and the price version disagree; report it with the named record.
with run as not materialized (
    select * from ledger.runs where id = :run_id and price_changes = '[]'
),

-- By kind of resource, so that a record is read once, however many of its metrics are priced.
priced as not materialized (
    select prices.platform, prices.resource_type, versions.currency, array_agg(prices.metric) as metrics
    from ledger.prices
    inner join ledger.pricing_versions as versions on prices.version = versions.version
    inner join run on prices.version = run.pricing_version
    group by prices.platform, prices.resource_type, versions.currency
),

entries as not materialized (
    select
        records.cloud, records.resource_type, records.resource_id, records.id, metric.name as metric,
        records.project_id, priced.currency, false as is_rated
    from metering.int_usage_records as records
    inner join run on records.run_id = run.id
    inner join priced on priced.platform = records.platform and priced.resource_type = records.resource_type
    cross join lateral unnest(priced.metrics) as metric (name)
    where jsonb_typeof(records.usage -> metric.name) = 'number'
    union all
    select
        rated.cloud, rated.resource_type, rated.resource_id, rated.usage_record_id, rated.dimension,
        rated.project_id, rated.currency, true
    from metering.int_rated_records as rated
    inner join run on rated.run_id = run.id
),

hashed as not materialized (
    select
        is_rated,
        hashtextextended(
            cloud, hashtextextended(
                resource_type, hashtextextended(
                    resource_id, hashtextextended(
                        metric, hashtextextended(project_id, hashtextextended(currency, uuid_hash_extended(id, 0)))
                    )
                )
            )
        ) as hash
    from entries
),

both_sides as (
    select
        count(*) filter (where is_rated) = count(*) filter (where not is_rated)
        and sum(hash) filter (where is_rated) is not distinct from sum(hash) filter (where not is_rated) as agree
    from hashed
)

select
    cloud, resource_type, resource_id as subject,
    metric || ' of record ' || id || ' of ' || project_id || ' in ' || currency || ' has '
    || count(*) filter (where is_rated) || ' rated records, expected ' || count(*) filter (where not is_rated)
    as detail
from entries
where not (select agree from both_sides)
group by cloud, resource_type, resource_id, id, metric, project_id, currency
having count(*) filter (where is_rated) <> count(*) filter (where not is_rated)
