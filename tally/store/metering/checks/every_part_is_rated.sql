-- In a month in which prices change, each priced metric of a usage record has a rated record for each version that holds
-- in its time, of the part in which that version holds and of what was counted in it, of the same project and in the
-- currency of the version; and nothing else has one.
-- Remedy: the rating model and the versions of the run disagree; report it with the named record.
with run as (
    select * from ledger.runs where id = :run_id and price_changes <> '[]'
),

parts as (
    select parts.* from ledger.run_prices as parts inner join run on parts.run_id = run.id
),

-- Nothing is read in a month in which prices do not change.
metered as (
    select
        records.cloud, records.resource_type, records.resource_id, records.id, records.lifetime_no, records.project_id,
        versions.currency, prices.metric, prices.formula, prices.version,
        (records.usage ->> prices.metric)::numeric as of_record,
        greatest(records.from_ts, parts.from_ts) as from_ts, least(records.to_ts, parts.to_ts) as to_ts,
        parts.from_ts > records.from_ts or parts.to_ts < records.to_ts as is_part
    from metering.int_usage_records as records
    inner join parts on parts.to_ts > records.from_ts and parts.from_ts < records.to_ts
    inner join ledger.pricing_versions as versions on versions.version = parts.pricing_version
    inner join ledger.prices as prices
        on
            prices.version = parts.pricing_version and prices.platform = records.platform
            and prices.resource_type = records.resource_type
    where
        records.run_id = :run_id and exists (select from run)
        and jsonb_typeof(records.usage -> prices.metric) = 'number'
),

expected as (
    select
        metered.*,
        case
            when metered.is_part and metered.formula = 'counter'
                then (
                    select sum(gained.quantity)
                    from metering.int_usage_increments as gained
                    where
                        gained.cloud = metered.cloud and gained.resource_type = metered.resource_type
                        and gained.resource_id = metered.resource_id and gained.lifetime_no = metered.lifetime_no
                        and gained.metric = metered.metric and gained.timestamp >= metered.from_ts
                        and (gained.timestamp < metered.to_ts or gained.closed_at = metered.to_ts)
                        and gained.timestamp <= metered.to_ts
                )
            else metered.of_record
        end as quantity
    from metered
),

paid as (
    select * from metering.int_rated_records where run_id = :run_id and exists (select from run)
)

select
    coalesce(expected.cloud, paid.cloud) as cloud,
    coalesce(expected.resource_type, paid.resource_type) as resource_type,
    coalesce(expected.resource_id, paid.resource_id) as subject,
    coalesce(expected.metric, paid.dimension) || ' of record ' || coalesce(expected.id, paid.usage_record_id) || ' by '
    || coalesce(expected.version, paid.pricing_version) || ' is rated as '
    || coalesce(concat_ws(' ', paid.quantity, paid.from_ts, paid.to_ts, paid.project_id, paid.currency), 'nothing')
    || ', expected ' || coalesce(
        concat_ws(
            ' ', expected.quantity, expected.from_ts, expected.to_ts, expected.project_id, expected.currency
        ), 'nothing'
    ) as detail
from (select * from expected where quantity is not null) as expected
full join paid
    on
        paid.cloud = expected.cloud and paid.resource_type = expected.resource_type
        and paid.resource_id = expected.resource_id and paid.usage_record_id = expected.id
        and paid.dimension = expected.metric and paid.pricing_version = expected.version
where
    expected.id is null or paid.id is null or paid.quantity <> expected.quantity
    or paid.project_id <> expected.project_id or paid.currency <> expected.currency
    or paid.from_ts is distinct from case when expected.is_part then expected.from_ts end
    or paid.to_ts is distinct from case when expected.is_part then expected.to_ts end
