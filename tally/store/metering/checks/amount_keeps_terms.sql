-- Each amount whose price has tiers, a cap or charged times is what its record, or the part of it that is paid for, adds
-- to the cost of those before it, rounded once, half-up. What comes before is what is left of the month after it, the cost of tiers a sum of their
-- steps in price, and a cap what remains of it: nothing is worked out as the rating model does.
-- Remedy: the rating model has a fault; report it with the named record.
with parts as (
    select * from ledger.run_prices where run_id = :run_id
),

priced as (
    select
        prices.*, case when prices.formula = 'time_gauge' then 3600000000 else 1 end as units_of_a_bound,
        prices.tier_mode is not null or prices.minimum_us is not null or prices.increment_us is not null
        or prices.monthly_cap is not null as has_terms
    from ledger.prices
    inner join parts on prices.version = parts.pricing_version
),

-- Where one version has terms for a metric, they count what the others price.
prices as (
    select
        priced.*,
        (
            select max(others.tier_group) from priced as others
            where
                others.platform = priced.platform and others.resource_type = priced.resource_type
                and others.metric = priced.metric
        ) as counted_per
    from priced
    where
        exists (
            select from priced as others
            where
                others.platform = priced.platform and others.resource_type = priced.resource_type
                and others.metric = priced.metric and others.has_terms
        )
),

steps as (
    select
        tiers.*,
        tiers.price - lag(tiers.price, 1, 0::numeric) over (
            partition by tiers.version, tiers.platform, tiers.resource_type, tiers.metric order by tiers.no
        ) as rise
    from ledger.price_tiers as tiers
    inner join parts on tiers.version = parts.pricing_version
),

modifiers as (
    select modifiers.*
    from ledger.price_modifiers as modifiers
    inner join parts on modifiers.version = parts.pricing_version
),

-- Read only if some price has terms; materialized, for how few of the records these are cannot be estimated.
records as materialized (
    select
        rated.cloud, rated.resource_type, rated.resource_id, rated.usage_record_id, rated.dimension, rated.project_id,
        rated.pricing_version, rated.amount, rated.amount_exact, rated.basis,
        usage_records.platform, usage_records.lifetime_no, usage_records.state, usage_records.size ->> 'type' as type,
        coalesce(rated.from_ts, usage_records.from_ts) as from_ts,
        extract(
            epoch from coalesce(rated.to_ts, usage_records.to_ts) - coalesce(rated.from_ts, usage_records.from_ts)
        ) * 1000000 as length_us,
        -- What was counted in a part of a record is checked with the parts: every_part_is_rated.
        case
            when rated.from_ts is not null then rated.quantity else (usage_records.usage ->> rated.dimension)::numeric
        end as quantity
    from metering.int_rated_records as rated
    inner join metering.int_usage_records as usage_records
        on
            usage_records.cloud = rated.cloud and usage_records.resource_type = rated.resource_type
            and usage_records.resource_id = rated.resource_id and usage_records.id = rated.usage_record_id
    where
        rated.run_id = :run_id
        and exists (select from prices)
        and rated.dimension = any(array(select metric from prices))
),

rated as (
    select
        records.*, prices.formula, prices.price, prices.version, prices.has_terms, prices.tier_mode,
        prices.counted_per, prices.minimum_us, prices.increment_us, prices.monthly_cap, prices.units_of_a_bound,
        case
            when prices.formula = 'time_gauge' then coalesce(by_state.modifier, 1) * coalesce(by_type.modifier, 1)
            else 1
        end as modifier
    from records
    inner join prices
        on
            prices.version = records.pricing_version
            and prices.platform = records.platform and prices.resource_type = records.resource_type
            and prices.metric = records.dimension
    left join modifiers as by_state
        on
            by_state.version = records.pricing_version
            and by_state.platform = records.platform and by_state.resource_type = records.resource_type
            and by_state.kind = 'state' and by_state.value = records.state
    left join modifiers as by_type
        on
            by_type.version = records.pricing_version
            and by_type.platform = records.platform and by_type.resource_type = records.resource_type
            and by_type.kind = 'type' and by_type.value = records.type
),

lived as (
    select *, max(from_ts) over life as last_from_ts, sum(length_us) over life as lived_us
    from rated
    window life as (partition by cloud, resource_type, resource_id, lifetime_no, dimension)
),

-- The price that holds at the end of a life says what is added to it.
measured as (
    select
        *,
        case
            when formula = 'counter' then quantity
            when from_ts = last_from_ts
                then
                    quantity * (
                        length_us - lived_us
                        + ceil(greatest(lived_us, coalesce(minimum_us, 0)) / coalesce(increment_us, 1))
                        * coalesce(increment_us, 1)
                    )
            else length_us * quantity
        end as units
    from lived
),

totals as (
    select
        *,
        sum(units) over grouped as total,
        sum(units) over (
            grouped order by
                from_ts desc, cloud collate "C" desc, resource_type collate "C" desc, resource_id collate "C" desc
            rows between unbounded preceding and current row
        ) as left_over
    from measured
    window grouped as (
        partition by
            cloud, resource_type, dimension, case when counted_per = 'project' then project_id else resource_id end
    )
),

costs as (
    select
        totals.*, totals.total - totals.left_over as units_before,
        totals.modifier * case
            when totals.tier_mode is null then totals.units * totals.price
            when totals.tier_mode = 'volume'
                then totals.units * coalesce((
                    select sum(steps.rise)
                    from steps
                    where
                        steps.version = totals.version and steps.platform = totals.platform
                        and steps.resource_type = totals.resource_type and steps.metric = totals.dimension
                        and (steps.no = 1 or steps.above * totals.units_of_a_bound < totals.total)
                ), 0)
            else (
                select
                    coalesce(sum(steps.rise * (
                        greatest(
                            0, totals.total - totals.left_over + totals.units - steps.above * totals.units_of_a_bound
                        )
                        - greatest(0, totals.total - totals.left_over - steps.above * totals.units_of_a_bound)
                    )), 0)
                from steps
                where
                    steps.version = totals.version and steps.platform = totals.platform
                    and steps.resource_type = totals.resource_type and steps.metric = totals.dimension
            )
        end * (case when totals.formula = 'time_gauge' then 1 else 3600000000 end) as uncapped
    from totals
),

expected as (
    select
        *,
        case
            when monthly_cap is null then uncapped
            else greatest(0, least(uncapped, monthly_cap * 3600000000 - (
                sum(uncapped) over (
                    partition by cloud, resource_type, resource_id, dimension order by from_ts
                ) - uncapped
            )))
        end as numerator
    from costs
)

select
    cloud, resource_type, resource_id as subject,
    dimension || ' of record ' || usage_record_id || ': ' || amount || ' (' || amount_exact || ') on '
    || coalesce(basis::text, 'no basis') || ', expected ' || numerator || ' / 3600000000' as detail
from expected
where
    not (
        (amount - 0.005) * 3600000000 <= numerator and numerator < (amount + 0.005) * 3600000000
        and (amount_exact - 0.0000000000005) * 3600000000 <= numerator
        and numerator < (amount_exact + 0.0000000000005) * 3600000000
    )
    or (has_terms and basis is null)
    or (tier_mode is not null and ((basis ->> 'before')::numeric, (basis ->> 'total')::numeric)
        is distinct from (units_before, total))
