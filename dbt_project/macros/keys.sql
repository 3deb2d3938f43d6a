{# Everything about a resource goes by the full triple: keys, joins, windows, distribution (DESIGN.md section 7). #}
{% macro resource(alias) -%}
    {{ alias }}.cloud, {{ alias }}.resource_type, {{ alias }}.resource_id
{%- endmacro %}

{# What sorts and indexes of resources begin with: the id tells two of them apart in one comparison, where clouds and types
   are mostly the same. #}
{% macro by_resource(alias) -%}
    {{ alias }}.resource_id, {{ alias }}.resource_type, {{ alias }}.cloud
{%- endmacro %}

{% macro same_resource(left, right) -%}
    {{ left }}.cloud = {{ right }}.cloud
    and {{ left }}.resource_type = {{ right }}.resource_type
    and {{ left }}.resource_id = {{ right }}.resource_id
{%- endmacro %}

{# Whether what a counter gained belongs to a stretch of a life, from from_ts to to_ts: at the instant at which it ends, only
   if the life is closed by then. #}
{% macro gained_within(increments, stretch) -%}
    {{ same_resource(increments, stretch) }}
    and {{ increments }}.lifetime_no = {{ stretch }}.lifetime_no
    and {{ increments }}.timestamp >= {{ stretch }}.from_ts
    and (
        {{ increments }}.timestamp < {{ stretch }}.to_ts
        or ({{ increments }}.timestamp = {{ stretch }}.to_ts and {{ increments }}.closed_at = {{ stretch }}.to_ts)
    )
{%- endmacro %}

{# Exact length of [from_ts, to_ts) in microseconds. #}
{% macro microseconds(from_ts, to_ts) -%}
    (extract(epoch from {{ to_ts }} - {{ from_ts }}) * 1000000)::bigint
{%- endmacro %}

{# An id derived from the key: the same inputs give the same id. A row's text quotes its parts: no two keys read alike. #}
{% macro derived_id(parts) -%}
    md5(row({{ parts | join(', ') }})::text)::uuid
{%- endmacro %}

{# Half of the resources (0 or 1), by a hash: what is long and takes one session is done by two. #}
{% macro in_half(half, alias) -%}
    hashtext({{ alias }}.resource_id) {{ '<' if half == 0 else '>=' }} 0
{%- endmacro %}

{# Which resources a run meters: all of them, or of a correction those that have changed since. #}
{% macro of_metered_resources(alias) -%}
    {%- set corrected_resources = ref('int_corrected_resources') -%}
    {% if var('scope') == 'changed' %}
    inner join {{ corrected_resources }} as metered on {{ same_resource(alias, 'metered') }}
    {% endif %}
{%- endmacro %}

{# The events of the metered resources within the period, its end included, as alias, beside the run. What has arrived in
   other months is passed over by the index events_arrival, or all but the metered resources by the key: offset keeps the
   planner from reading the whole history instead, of which it does not know how little the run asks for. A
   model that calls this calls of_metered_resources too, which tells dbt what it depends on. #}
{% macro events_of_period(alias) -%}
    run
    {% if var('scope') == 'changed' -%}
    cross join {{ ref('int_corrected_resources') }} as metered
    {% endif -%}
    cross join lateral (
        select found.*
        from {{ ref('stg_events') }} as found
        where
            found.timestamp >= run.period_from and found.timestamp <= run.metered_to
            {% if var('scope') == 'changed' -%}
            and {{ same_resource('found', 'metered') }}
            {% endif -%}
        offset 0
    ) as {{ alias }}
{%- endmacro %}

{# Whether an event counts: a void one is absent everywhere (rule 9). #}
{% macro is_not_void(alias) -%}
    not exists (
            select from {{ ref('int_void_events') }} as void
            where
                {{ same_resource('void', alias) }}
                and void.timestamp = {{ alias }}.timestamp and void.event_id = {{ alias }}.event_id
        )
{%- endmacro %}
