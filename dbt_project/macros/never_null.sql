{# A data test: no row lacks any of several columns. One query for all of them: each test costs a close some of its time. #}
{% test never_null(model, columns) %}
select {{ columns | join(', ') }}
from {{ model }}
where {{ columns | join(' is null or ') }} is null
{% endtest %}
