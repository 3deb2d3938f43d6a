{# A mart holds the live runs: what has been superseded goes, what is new is added. The cost of a month does not grow
   with the history. #}
{% macro forget_replaced_runs() -%}
    {% if is_incremental() %}
    delete from {{ this }} as old
    where
        not exists (
            select from {{ source('completed', 'runs') }} as run
            where run.id = old.run_id and run.status in ('completed', 'finalized')
        )
    {% endif %}
{%- endmacro %}

{% macro new_live_runs() -%}
    select run.id as run_id, run.period
    from {{ source('completed', 'runs') }} as run
    where
        run.status in ('completed', 'finalized')
        {% if is_incremental() %}
        and not exists (select from {{ this }} as mart where mart.run_id = run.id)
        {% endif %}
{%- endmacro %}

{# Whether records are of those runs, which are asked for when SQL is compiled. By their ids the planner knows how many
   records they have, whatever the history, and shares the records out to workers: it reads what a CTE says with one. #}
{% macro is_of_new_live_run(alias) -%}
    {%- set ids = [] -%}
    {%- if execute -%}
        {%- set ids = run_query("select run_id from (" ~ new_live_runs() ~ ") as runs").columns[0].values() -%}
    {%- endif -%}
    {{ alias }}.run_id = any('{ {{- ids | join(', ') -}} }'::uuid[])
{%- endmacro %}
