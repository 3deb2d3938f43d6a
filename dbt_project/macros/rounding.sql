{# numerator / denominator, rounded once, half away from zero, to so many decimals (rule 23). The quotient is an
   integer division of the exact numerator: a rounded quotient is never rounded again. #}
{% macro round_half_up(numerator, denominator, decimals) -%}
    sign({{ numerator }})
    * div(abs({{ numerator }}) * {{ 2 * 10 ** decimals }} + {{ denominator }}, {{ 2 * denominator }})
    / {{ 10 ** decimals }}
{%- endmacro %}
