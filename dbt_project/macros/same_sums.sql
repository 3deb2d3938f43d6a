{# A data test: two models add up to the same for each key. #}
{% test same_sums(model, other, columns, amount) %}
select {{ columns | join(', ') }}, sum(side * {{ amount }}) as difference
from (
    select 1 as side, {{ columns | join(', ') }}, {{ amount }} from {{ model }}
    union all
    select -1, {{ columns | join(', ') }}, {{ amount }} from {{ other }}
) as sides
group by {{ columns | join(', ') }}
having sum(side * {{ amount }}) <> 0
{% endtest %}
