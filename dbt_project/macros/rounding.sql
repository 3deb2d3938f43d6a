{# numerator / denominator, rounded once, half away from zero, to so many decimals (rule 23). The quotient is an
   integer division of the exact numerator: a rounded quotient is never rounded again. Its decimals are set by a product, which
   is exact: PostgreSQL cuts a quotient after about 16 digits. #}
{% macro round_half_up(numerator, denominator, decimals) -%}
    (
        sign({{ numerator }})
        * div(abs({{ numerator }}) * {{ 2 * 10 ** decimals }} + {{ denominator }}, {{ 2 * denominator }})
        * 0.{{ '0' * (decimals - 1) }}1
    )::numeric(38, {{ decimals }})
{%- endmacro %}

{# What of an amount in cents has come together after a part of its time, rounded half away from zero to the cent. #}
{% macro share(amount, elapsed_us, length_us) -%}
    (
        sign({{ amount }})
        * div(abs({{ amount }}) * 200 * {{ elapsed_us }} + {{ length_us }}, 2 * {{ length_us }})
        * 0.01
    )
{%- endmacro %}

{# numerator / 3.6e9, cut off towards zero after 13 decimals by integer division: 3.6e9 is 36 x 10^8. Rounding it half
   away from zero to 12 decimals or fewer, which a cast to numeric does, is rounding the exact quotient: a half of those
   has at most 13 decimals, so that whatever is cut off lies beyond it on the same side. #}
{% macro cut_off_after_13_decimals(numerator) -%}
    div({{ numerator }} * 100000, 36) * 0.0000000000001
{%- endmacro %}
