{# What usage costs: one row per priced dimension of each usage record, exact and rounded once (rule 23).

   Its arguments are the relations that it reads, so that a quote, or a draft of prices, is rated by the very same SQL
   over tables of its own: tally/store/metering/rating_sql.py renders it outside dbt. `run` has one row, with the
   pricing_version to rate by; the others have the columns of int_usage_records and of the tables ledger.pricing_versions,
   ledger.prices, ledger.price_modifiers and ledger.price_tiers. What terms of a price do is settled in pricing/terms.py
   and pricing/month.py; here they cost nothing where no price has any.

   Where prices change inside the month, `parts` has a row for each version (pricing_version, from_ts, to_ts): each usage
   record is rated as if it were cut there, and the part of it is told as from_ts and to_ts. `increments`, with the columns
   of int_usage_increments, says which part the gains of counters belong to; without it, no counter may be cut. #}
{% macro rating(run, usage_records, versions, prices, modifiers, tiers, parts=none, increments=none) -%}
with {% if parts -%}
pieces as materialized (
    {{ pieces(usage_records, parts, increments) | indent }}
),

{% endif -%}
versions as (
    select versions.version, versions.currency
    from {{ versions }} as versions
    where
        versions.version in (select used.pricing_version from {{ parts or run }} as used)
),

modifiers as (
    select
        modifiers.version, modifiers.platform, modifiers.resource_type,
        jsonb_object_agg(modifiers.value, modifiers.modifier) filter (where modifiers.kind = 'state') as of_states,
        jsonb_object_agg(modifiers.value, modifiers.modifier) filter (where modifiers.kind = 'type') as of_types
    from {{ modifiers }} as modifiers
    inner join versions on versions.version = modifiers.version
    group by modifiers.version, modifiers.platform, modifiers.resource_type
),

-- A counter has no modifiers: nothing is found in none. Where one version counts, the others count for it.
prices as materialized (
    select
        prices.*, versions.currency,
        case when prices.formula = 'time_gauge' then modifiers.of_states end as of_states,
        case when prices.formula = 'time_gauge' then modifiers.of_types end as of_types,
        bool_or(
            coalesce(prices.tier_mode, prices.minimum_us::text, prices.increment_us::text, prices.monthly_cap::text)
            is not null
        ) over metric as has_terms,
        max(prices.tier_group) over metric as counted_per,
        -- Units are unit microseconds of a time gauge, units of a counter; both come to an amount x 3.6e9.
        case when prices.formula = 'time_gauge' then 3600000000 else 1 end as units_of_a_bound,
        case when prices.formula = 'time_gauge' then 1 else 3600000000 end as scale
    from {{ prices }} as prices
    inner join versions on versions.version = prices.version
    left join modifiers
        on
            modifiers.version = prices.version and modifiers.platform = prices.platform
            and modifiers.resource_type = prices.resource_type
    window metric as (partition by prices.platform, prices.resource_type, prices.metric)
),

tiers as (
    select tiers.*
    from {{ tiers }} as tiers
    inner join versions on versions.version = tiers.version
),

-- A counter that a record lacks is zero and yields no line; a gauge that it lacks is a finding (rules 26 and 27). The prices
-- are read as one value: workers of a parallel plan are handed a value, and cannot read a CTE.
priced as not materialized (
    select
        usage_records.cloud, usage_records.platform, usage_records.resource_type, usage_records.resource_id,
        usage_records.id as usage_record_id, usage_records.run_id, usage_records.project_id, usage_records.length_us,
        usage_records.lifetime_no, usage_records.from_ts,
        {% if parts -%}
        usage_records.part_from_ts, usage_records.part_to_ts,
        {%- else -%}
        null::timestamptz as part_from_ts, null::timestamptz as part_to_ts,
        {%- endif %}
        prices.has_terms, prices.tier_mode, prices.counted_per, prices.minimum_us, prices.increment_us,
        prices.monthly_cap, prices.units_of_a_bound, prices.scale,
        prices.metric as dimension, prices.formula, prices.price, prices.currency, prices.version as pricing_version,
        (usage_records.usage -> prices.metric)::numeric as quantity,
        coalesce((prices.of_states -> usage_records.state)::numeric, 1) as state_modifier,
        coalesce((prices.of_types -> (usage_records.size ->> 'type'))::numeric, 1) as type_modifier
    from {{ 'pieces' if parts else usage_records }} as usage_records
    inner join
        jsonb_to_recordset((select jsonb_agg(to_jsonb(prices)) from prices)) as prices (
            version text, platform text collate "C", resource_type text collate "C", metric text collate "C",
            formula text, price numeric, currency text, of_states jsonb, of_types jsonb, has_terms boolean,
            tier_mode text, counted_per text, minimum_us bigint, increment_us bigint, monthly_cap numeric,
            units_of_a_bound bigint, scale bigint
        )
        on
            usage_records.platform = prices.platform and usage_records.resource_type = prices.resource_type
            {{- ' and usage_records.pricing_version = prices.version' if parts }}
    where jsonb_typeof(usage_records.usage -> prices.metric) = 'number'
),

-- The exact amount is numerator / 3.6e9.
by_themselves as (
    select
        *,
        case
            when formula = 'time_gauge' then length_us * quantity * price * state_modifier * type_modifier
            else quantity * price * 3600000000
        end as numerator
    from priced
    where not has_terms
),

-- A life is charged for its least time and up to a whole step, once: what is added extends its last record.
lives as (
    select
        *,
        sum(length_us) over life as lived_us,
        lead(from_ts) over (life order by from_ts) is null as is_last
    from priced
    where has_terms
    window life as (partition by cloud, resource_type, resource_id, dimension, lifetime_no)
),

charged as (
    select
        *,
        case
            when is_last
                then
                    length_us - lived_us
                    + div(greatest(lived_us, minimum_us) + coalesce(increment_us, 1) - 1, coalesce(increment_us, 1))
                    * coalesce(increment_us, 1)
            else length_us
        end as charged_us
    from lives
),

measured as (
    select *, case when formula = 'time_gauge' then charged_us * quantity else quantity end as units
    from charged
),

-- Whose units a tier counts: those of the resource, or of the project, one after the other.
counted as (
    select
        *,
        sum(units) over grouped as total_units,
        coalesce(sum(units) over (
            grouped order by from_ts, cloud collate "C", resource_type collate "C", resource_id collate "C"
            rows between unbounded preceding and 1 preceding
        ), 0) as units_before
    from measured
    window grouped as (
        partition by cloud, resource_type, dimension,
        case when counted_per = 'project' then project_id else resource_id end
    )
),

tiered as (
    select
        counted.*,
        case when tier_mode is null then price else steps.listed_price end as tier_price,
        scale * state_modifier * type_modifier
        * case tier_mode when 'graduated' then steps.cost when 'volume' then units * steps.listed_price else units * price end
        as uncapped
    from counted
    left join lateral (
        select
            sum(tiers.price * greatest(
                0,
                least(counted.units_before + counted.units, tiers.up_to * counted.units_of_a_bound)
                - greatest(counted.units_before, tiers.above * counted.units_of_a_bound)
            )) as cost,
            min(tiers.price) filter (
                where
                case counted.tier_mode
                    when 'volume'
                        then
                            (counted.total_units > tiers.above * counted.units_of_a_bound or tiers.no = 1)
                            and (tiers.up_to is null or counted.total_units <= tiers.up_to * counted.units_of_a_bound)
                    else
                        counted.units_before >= tiers.above * counted.units_of_a_bound
                        and (tiers.up_to is null or counted.units_before < tiers.up_to * counted.units_of_a_bound)
                end
            ) as listed_price
        from tiers
        where
            tiers.version = counted.pricing_version and tiers.platform = counted.platform
            and tiers.resource_type = counted.resource_type and tiers.metric = counted.dimension
    ) as steps on counted.tier_mode is not null
),

-- The cap of a resource holds over the month, whoever owns it: each record is charged what it adds to the least of both.
spent as (
    select
        *,
        coalesce(sum(uncapped) over (
            partition by cloud, resource_type, resource_id, dimension order by from_ts
            rows between unbounded preceding and 1 preceding
        ), 0) as spent_before
    from tiered
),

with_terms as (
    select
        *,
        coalesce(
            least(spent_before + uncapped, monthly_cap * 3600000000) - least(spent_before, monthly_cap * 3600000000),
            uncapped
        ) as numerator,
        nullif(jsonb_strip_nulls(jsonb_build_object(
            'microseconds', case when minimum_us is not null or increment_us is not null then charged_us end,
            'before', case when tier_mode is not null then trim_scale(units_before) end,
            'total', case when tier_mode is not null then trim_scale(total_units) end,
            'charged', case when monthly_cap is not null then trim_scale(spent_before) end
        )), '{}') as basis
    from spent
)

{{ rated('by_themselves', 'price', 'null::jsonb', in_parts=parts) }}
union all
{{ rated('with_terms', 'tier_price', 'basis', in_parts=parts) }}
{%- endmacro %}

{# The rows of one of both ways to a numerator, finished where they are made: what is done after a union is done by one
   session alone. Both amounts are rounded from one quotient that is cut off a decimal further: what is cut off never
   decides a half. They have room for whatever quantities and prices come to: what the ledger cannot hold is found by a
   check, which names it. #}
{% macro rated(relation, price, basis, in_parts) -%}
select
    cloud, platform, resource_type, resource_id,
    {% if in_parts -%}
    md5(usage_record_id::text || dimension || coalesce(extract(epoch from part_from_ts)::text, ''))::uuid as id,
    {%- else -%}
    md5(usage_record_id::text || dimension)::uuid as id,
    {%- endif %}
    run_id, usage_record_id, project_id, dimension, quantity, {{ price }} as price, state_modifier, type_modifier,
    ({{ cut_off_after_13_decimals('numerator') }})::numeric(60, 12) as amount_exact,
    ({{ cut_off_after_13_decimals('numerator') }})::numeric(60, 2) as amount,
    currency, pricing_version, {{ basis }} as basis, part_from_ts as from_ts, part_to_ts as to_ts
from {{ relation }}
{%- endmacro %}

{# Usage records cut where prices change, each piece with the version that prices it. What a counter gained is in the
   piece at the instant of which it was gained; at the end of a life, in its last one. #}
{% macro pieces(usage_records, parts, increments) -%}
with cut as (
    select
        usage_records.cloud, usage_records.platform, usage_records.resource_type, usage_records.resource_id,
        usage_records.id, usage_records.run_id, usage_records.project_id, usage_records.lifetime_no,
        usage_records.state, usage_records.size, usage_records.counters, usage_records.usage,
        parts.pricing_version,
        greatest(usage_records.from_ts, parts.from_ts) as from_ts,
        least(usage_records.to_ts, parts.to_ts) as to_ts,
        usage_records.from_ts < parts.from_ts or parts.to_ts < usage_records.to_ts as is_cut
    from {{ usage_records }} as usage_records
    inner join {{ parts }} as parts
        on parts.from_ts < usage_records.to_ts and usage_records.from_ts < parts.to_ts
),

{% if increments -%}
gained as (
    select
        {{ resource('cut') }}, cut.id, cut.from_ts, increments.metric, sum(increments.quantity) as quantity
    from cut
    inner join {{ increments }} as increments
        on
            {{ gained_within('increments', 'cut') }}
    where cut.is_cut
    group by {{ resource('cut') }}, cut.id, cut.from_ts, increments.metric
),

{% else -%}
gained as (
    select cloud, resource_type, resource_id, id, from_ts, null::text as metric, null::numeric as quantity
    from cut
    where false
),

{% endif -%}
counters as (
    select
        cloud, resource_type, resource_id, id, from_ts, jsonb_object_agg(metric, trim_scale(quantity)) as counters
    from gained
    group by cloud, resource_type, resource_id, id, from_ts
)

select
    {{ resource('cut') }}, cut.platform, cut.id, cut.run_id, cut.project_id, cut.lifetime_no, cut.state, cut.size,
    cut.pricing_version, cut.from_ts,
    {{ microseconds('cut.from_ts', 'cut.to_ts') }} as length_us,
    case when cut.is_cut then cut.from_ts end as part_from_ts,
    case when cut.is_cut then cut.to_ts end as part_to_ts,
    case
        when cut.is_cut
            then cut.usage - array(select jsonb_object_keys(cut.counters)) || coalesce(counters.counters, '{}')
        else cut.usage
    end as usage
from cut
left join counters using (cloud, resource_type, resource_id, id, from_ts)
{%- endmacro %}

{# Whether prices change inside the month of the run that is being made, as its row says. Asked when SQL is compiled, so
   that what rates a month without a change is what it always was. The table goes by its name: a source would be another one
   in dbt's unit tests. #}
{% macro prices_change() -%}
    {%- if execute -%}
        {%- set asked = "select 1 from ledger.runs where id = '" ~ var('run_id') ~ "' and price_changes <> '[]'" -%}
        {{- return(run_query(asked).rows | length > 0) -}}
    {%- endif -%}
    {{- return(false) -}}
{%- endmacro %}
