-- Each amount whose price has no terms is the exact one, rounded once, half-up: with N = microseconds x quantity x
-- price x modifiers / 3.6e9, it is the only cent within half a cent of N, and the upper one of two. Nothing is divided
-- here and nothing rounded; quantity, price and modifiers are looked up again.
-- Remedy: the rating model has a fault; report it with the named record.
with prices as not materialized (
    select * from ledger.prices
    -- As an array, which is made once: all else is done in parallel.
    where version = any(array(select pricing_version from ledger.run_prices where run_id = :run_id))
),

priced as (
    select
        rated.cloud, rated.resource_type, rated.resource_id, rated.usage_record_id, rated.dimension,
        rated.quantity, rated.price, rated.state_modifier, rated.type_modifier, rated.amount, rated.amount_exact,
        -- What was counted in a part of a record is checked with the parts: every_part_is_rated.
        case
            when rated.from_ts is not null and prices.formula = 'counter' then rated.quantity
            else (usage_records.usage ->> rated.dimension)::numeric
        end as metered_quantity,
        prices.price as listed_price,
        case when prices.formula = 'time_gauge' then coalesce(by_state.modifier, 1) else 1 end as listed_state_modifier,
        case when prices.formula = 'time_gauge' then coalesce(by_type.modifier, 1) else 1 end as listed_type_modifier,
        case
            when prices.formula = 'time_gauge'
                then
                    extract(
                        epoch from coalesce(rated.to_ts, usage_records.to_ts)
                        - coalesce(rated.from_ts, usage_records.from_ts)
                    ) * 1000000
            else 3600000000
        end as factor
    from metering.int_rated_records as rated
    left join metering.int_usage_records as usage_records
        on
            usage_records.cloud = rated.cloud and usage_records.resource_type = rated.resource_type
            and usage_records.resource_id = rated.resource_id and usage_records.id = rated.usage_record_id
    left join prices
        on
            prices.version = rated.pricing_version
            and prices.platform = usage_records.platform and prices.resource_type = usage_records.resource_type
            and prices.metric = rated.dimension
    left join ledger.price_modifiers as by_state
        on
            by_state.version = rated.pricing_version
            and by_state.platform = usage_records.platform and by_state.resource_type = usage_records.resource_type
            and by_state.kind = 'state' and by_state.value = usage_records.state
    left join ledger.price_modifiers as by_type
        on
            by_type.version = rated.pricing_version
            and by_type.platform = usage_records.platform and by_type.resource_type = usage_records.resource_type
            and by_type.kind = 'type' and by_type.value = usage_records.size ->> 'type'
    where
        rated.run_id = :run_id
        -- None of them. By "=" or "is null" the planner would expect hardly a row, and judge all of them in one process.
        and num_nonnulls(prices.tier_mode, prices.minimum_us, prices.increment_us, prices.monthly_cap) < 1
),

exact as (
    select
        *,
        factor * metered_quantity * listed_price * listed_state_modifier * listed_type_modifier as numerator
    from priced
)

select
    cloud, resource_type, resource_id as subject,
    dimension || ' of record ' || usage_record_id || ': ' || amount || ' (' || amount_exact || ') from '
    || concat_ws(' x ', quantity, price, state_modifier, type_modifier) || ', expected '
    || coalesce(numerator::text, 'nothing') || ' / 3600000000 from '
    || concat_ws(' x ', metered_quantity, listed_price, listed_state_modifier, listed_type_modifier) as detail
from exact
where
    quantity <> metered_quantity or price <> listed_price
    or state_modifier <> listed_state_modifier or type_modifier <> listed_type_modifier
    or not coalesce(
        numerator >= greatest((amount - 0.005) * 3600000000, (amount_exact - 0.0000000000005) * 3600000000)
        and numerator < least((amount + 0.005) * 3600000000, (amount_exact + 0.0000000000005) * 3600000000),
        false
    )
