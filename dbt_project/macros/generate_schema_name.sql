{# A model lives in the schema its folder names, in every environment: staging, metering, marts. #}
{% macro generate_schema_name(custom_schema_name, node) -%}
    {{ custom_schema_name or target.schema }}
{%- endmacro %}
