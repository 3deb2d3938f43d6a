-- Each amount whose price has tiers, a cap or charged times is what its record adds to the cost of those before it,
-- rounded once, half-up. What comes before is what is left of the month after it, the cost of tiers a sum of their
-- steps in price, and a cap what remains of it: nothing is worked out as the rating model does.
-- Remedy: the rating model has a fault; report it with the named record.
with run as (
    select * from ledger.runs where id = :run_id
),

prices as (
    select prices.*, case when prices.formula = 'time_gauge' then 3600000000 else 1 end as units_of_a_bound
    from ledger.prices
    inner join run on prices.version = run.pricing_version
    where
        prices.tier_mode is not null or prices.minimum_us is not null or prices.increment_us is not null
        or prices.monthly_cap is not null
),

steps as (
    select
        tiers.*,
        tiers.price - lag(tiers.price, 1, 0::numeric) over (
            partition by tiers.platform, tiers.resource_type, tiers.metric order by tiers.no
        ) as rise
    from ledger.price_tiers as tiers
    inner join run on tiers.version = run.pricing_version
),

modifiers as (
    select modifiers.*
    from ledger.price_modifiers as modifiers
    inner join run on modifiers.version = run.pricing_version
),

rated as (
    select
        rated.cloud, rated.platform, rated.resource_type, rated.resource_id, rated.usage_record_id, rated.dimension,
        rated.project_id, rated.amount, rated.amount_exact, rated.basis, prices.formula, prices.price,
        prices.tier_mode, prices.tier_group, prices.minimum_us, prices.increment_us, prices.monthly_cap,
        prices.units_of_a_bound, usage_records.lifetime_no, usage_records.from_ts,
        extract(epoch from usage_records.to_ts - usage_records.from_ts) * 1000000 as length_us,
        (usage_records.usage ->> rated.dimension)::numeric as quantity,
        case
            when prices.formula = 'time_gauge' then coalesce(by_state.modifier, 1) * coalesce(by_type.modifier, 1)
            else 1
        end as modifier
    from metering.int_rated_records as rated
    inner join metering.int_usage_records as usage_records
        on
            usage_records.cloud = rated.cloud and usage_records.resource_type = rated.resource_type
            and usage_records.resource_id = rated.resource_id and usage_records.id = rated.usage_record_id
    inner join prices
        on
            prices.platform = usage_records.platform and prices.resource_type = usage_records.resource_type
            and prices.metric = rated.dimension
    left join modifiers as by_state
        on
            by_state.platform = usage_records.platform and by_state.resource_type = usage_records.resource_type
            and by_state.kind = 'state' and by_state.value = usage_records.state
    left join modifiers as by_type
        on
            by_type.platform = usage_records.platform and by_type.resource_type = usage_records.resource_type
            and by_type.kind = 'type' and by_type.value = usage_records.usage ->> 'type'
    where rated.run_id = :run_id
),

lives as (
    select
        cloud, resource_type, resource_id, lifetime_no, dimension, max(from_ts) as last_from_ts,
        ceil(greatest(sum(length_us), coalesce(max(minimum_us), 0)) / coalesce(max(increment_us), 1))
        * coalesce(max(increment_us), 1) - sum(length_us) as added_us
    from rated
    group by cloud, resource_type, resource_id, lifetime_no, dimension
),

measured as (
    select
        rated.*,
        case
            when rated.formula = 'counter' then rated.quantity
            when rated.from_ts = lives.last_from_ts then (rated.length_us + lives.added_us) * rated.quantity
            else rated.length_us * rated.quantity
        end as units
    from rated
    inner join lives using (cloud, resource_type, resource_id, lifetime_no, dimension)
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
            cloud, resource_type, dimension, case when tier_group = 'project' then project_id else resource_id end
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
                        steps.platform = totals.platform and steps.resource_type = totals.resource_type
                        and steps.metric = totals.dimension
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
                    steps.platform = totals.platform and steps.resource_type = totals.resource_type
                    and steps.metric = totals.dimension
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
    or basis is null
    or (tier_mode is not null and ((basis ->> 'before')::numeric, (basis ->> 'total')::numeric)
        is distinct from (units_before, total))
