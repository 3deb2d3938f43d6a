{{ config(unlogged=true, meta={'dagster': {'asset_key': ['rating']}}) }}
-- One row per priced dimension of each usage record, exact and rounded once (rule 23); where prices change inside the
-- record, one for each part of it.
{%- set parts, increments = ref('stg_run_prices'), ref('int_usage_increments') -%}
{%- set changing = prices_change() %}
{{ rating(
    run=ref('stg_runs'),
    usage_records=ref('int_usage_records'),
    versions=source('ledger', 'pricing_versions'),
    prices=source('ledger', 'prices'),
    modifiers=source('ledger', 'price_modifiers'),
    tiers=source('ledger', 'price_tiers'),
    parts=parts if changing,
    increments=increments if changing
) }}
