{# A model lives in the schema its folder names, in every environment: staging, metering, marts. A replay, which proves
   a finalized run, has schemas of its own. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ var('schema_prefix') }}{{ custom_schema_name or target.schema }}
{%- endmacro %}
