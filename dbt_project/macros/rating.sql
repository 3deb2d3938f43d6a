{# What usage costs: one row per priced dimension of each usage record, exact and rounded once (rule 23).

   Its arguments are the relations that it reads, so that a quote, or a draft of prices, is rated by the very same SQL
   over tables of its own: tally/store/metering/rating_sql.py renders it outside dbt. `run` has one row, with the
   pricing_version to rate by; the others have the columns of int_usage_records and of the tables ledger.pricing_versions,
   ledger.prices and ledger.price_modifiers. #}
{% macro rating(run, usage_records, versions, prices, modifiers) -%}
with prices as (
    select prices.*, versions.currency
    from {{ prices }} as prices
    inner join {{ run }} as run on prices.version = run.pricing_version
    inner join {{ versions }} as versions on versions.version = prices.version
),

modifiers as (
    select modifiers.*
    from {{ modifiers }} as modifiers
    inner join {{ run }} as run on modifiers.version = run.pricing_version
),

-- A counter that a record lacks is zero and yields no line; a gauge that it lacks is a finding (rules 26 and 27).
priced as (
    select
        usage_records.cloud, usage_records.platform, usage_records.resource_type, usage_records.resource_id,
        usage_records.id as usage_record_id, usage_records.run_id, usage_records.project_id, usage_records.length_us,
        prices.metric as dimension, prices.formula, prices.price, prices.currency, prices.version as pricing_version,
        (usage_records.usage ->> prices.metric)::numeric as quantity,
        case when prices.formula = 'time_gauge' then coalesce(by_state.modifier, 1) else 1 end as state_modifier,
        case when prices.formula = 'time_gauge' then coalesce(by_type.modifier, 1) else 1 end as type_modifier
    from {{ usage_records }} as usage_records
    inner join prices
        on usage_records.platform = prices.platform and usage_records.resource_type = prices.resource_type
    left join modifiers as by_state
        on
            by_state.platform = usage_records.platform and by_state.resource_type = usage_records.resource_type
            and by_state.kind = 'state' and by_state.value = usage_records.state
    left join modifiers as by_type
        on
            by_type.platform = usage_records.platform and by_type.resource_type = usage_records.resource_type
            and by_type.kind = 'type' and by_type.value = usage_records.size ->> 'type'
    where jsonb_typeof(usage_records.usage -> prices.metric) = 'number'
),

-- The exact amount is numerator / 3.6e9 for what is priced per unit and hour, numerator / 1 for a counter.
multiplied as (
    select
        *,
        case
            when formula = 'time_gauge' then length_us * quantity * price * state_modifier * type_modifier
            else quantity * price * 3600000000
        end as numerator
    from priced
)

select
    cloud, platform, resource_type, resource_id,
    {{ derived_id(['usage_record_id', 'dimension']) }} as id,
    run_id, usage_record_id, project_id, dimension, quantity, price, state_modifier, type_modifier,
    {{ round_half_up('numerator', 3600000000, 12) }} as amount_exact,
    {{ round_half_up('numerator', 3600000000, 2) }} as amount,
    currency, pricing_version
from multiplied
{%- endmacro %}
