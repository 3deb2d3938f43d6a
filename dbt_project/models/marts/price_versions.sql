{{ config(materialized='view') }}
-- What was priced how, and when: one row per price of each version, with the months that it holds for, and the days
-- where it splits a month.
with versions as (
    select
        versions.version, versions.currency, versions.valid_from, versions.mid_period, versions.content_hash,
        versions.loaded_at,
        coalesce(versions.valid_to, lead(versions.valid_from) over (order by versions.valid_from)) as valid_until
    from {{ source('ledger', 'pricing_versions') }} as versions
),

modifiers as (
    select
        version, platform, resource_type,
        jsonb_object_agg(value, modifier) filter (where kind = 'state') as state_modifiers,
        jsonb_object_agg(value, modifier) filter (where kind = 'type') as type_modifiers
    from {{ source('ledger', 'price_modifiers') }}
    group by version, platform, resource_type
),

tiers as (
    select
        version, platform, resource_type, metric,
        jsonb_agg(jsonb_build_object('above', above, 'up_to', up_to, 'price', price) order by no) as tiers
    from {{ source('ledger', 'price_tiers') }}
    group by version, platform, resource_type, metric
),

prices as (
    select * from {{ source('ledger', 'prices') }}
)

select
    versions.version, to_char(versions.valid_from, 'YYYY-MM') as first_period,
    to_char(versions.valid_until - interval '1 day', 'YYYY-MM') as last_period,
    versions.valid_from, versions.valid_until, versions.mid_period,
    prices.platform, prices.resource_type, prices.metric, prices.formula, prices.price, versions.currency,
    prices.tier_mode, prices.tier_group, tiers.tiers,
    prices.minimum_us * interval '1 microsecond' as minimum_duration,
    prices.increment_us * interval '1 microsecond' as billing_increment, prices.monthly_cap,
    case when prices.formula = 'time_gauge' then coalesce(modifiers.state_modifiers, '{}') end as state_modifiers,
    case when prices.formula = 'time_gauge' then coalesce(modifiers.type_modifiers, '{}') end as type_modifiers,
    versions.content_hash, versions.loaded_at
from versions
inner join prices on prices.version = versions.version
left join tiers
    on
        tiers.version = prices.version and tiers.platform = prices.platform
        and tiers.resource_type = prices.resource_type and tiers.metric = prices.metric
left join modifiers
    on
        modifiers.version = prices.version and modifiers.platform = prices.platform
        and modifiers.resource_type = prices.resource_type
