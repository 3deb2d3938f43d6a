{# A data test: no two rows share a key of several columns. #}
{% test one_row_per_key(model, columns) %}
select {{ columns | join(', ') }}, count(*) as times
from {{ model }}
group by {{ columns | join(', ') }}
having count(*) > 1
{% endtest %}
