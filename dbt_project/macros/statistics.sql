{# What the planner knows of a table that was just written, for the models that read it: a view has none of its own.
   A fifth of the usual sample tells the same plans apart; of jsonb, the whole one takes longer than writing the table. #}
{% macro refresh_statistics() -%}
    {% if model.config.materialized != 'view' %}
    set local default_statistics_target = 20;
    analyze {{ this }}
    {% endif %}
{%- endmacro %}
