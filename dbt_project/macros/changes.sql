{# What is kept of resources (void events, timelines, lives) goes on from where it was: of a changed resource only what
   could have come out otherwise since an instant (int_changed_resources.since) is derived again. What ended before stays, and
   what was in force at that instant stands in for all that led to it. docs/adr/0025-timelines-go-on.md #}

{# The rows of the changed resources in a relation that meet a condition, as alias; all of its rows when the model is built
   from nothing. Each resource is looked up by its key: the planner, which knows little of how many rows a key has, would
   rather read the whole history. Offset keeps it from that. #}
{% macro of_changed_resources(relation, alias, condition='true') -%}
    {%- set changed_resources = ref('int_changed_resources') -%}
    {% if is_incremental() -%}
    {{ changed_resources }} as changed
    cross join lateral (
        select found.*
        from {{ relation }} as found
        where
            {{ same_resource('found', 'changed') }}
            and ({{ condition }})
        offset 0
    ) as {{ alias }}
    {%- else -%}
    {{ relation }} as {{ alias }}
    {%- endif %}
{%- endmacro %}

{# The incremental strategy replace_changed: what was derived again takes the place of what it was derived from. It reads
   the old rows, so that they go only when the new ones are there. The model says, as its incremental_predicates, which
   of the old rows of a changed resource go: all, unless it says otherwise. Here too, each resource is looked up by its
   key: of joins, that leaves one. #}
{% macro get_incremental_replace_changed_sql(arguments) %}
    set local enable_hashjoin = off;
    set local enable_mergejoin = off;
    delete from {{ arguments.target_relation }} as old
    using {{ ref('int_changed_resources') }} as changed
    where
        {{ same_resource('old', 'changed') }}
        {%- for predicate in arguments.incremental_predicates or [] %}
        and ({{ predicate }})
        {%- endfor %};
    set local enable_hashjoin = on;
    set local enable_mergejoin = on;
    {{ get_insert_into_sql(arguments.target_relation, arguments.temp_relation, arguments.dest_columns) }}
{% endmacro %}

{# In the transaction that derives last what is kept of a resource: the next run derives only what has arrived since. #}
{% macro remember_derived() -%}
    {% if not var('schema_prefix') %}
    update {{ source('raw', 'derived') }} as derived
    set load_id = run.load_id, registry_version = run.registry_version
    from {{ ref('stg_runs') }} as run
    {% endif %}
{%- endmacro %}

{# The timelines of one half of the resources. Of a changed one, the interval that was in force right before it changed, or
   that ended last before that, stands in for what came before: as what created it, and deleted it. Where there is
   none, the whole history is derived. #}
{% macro timelines_of_half(half) -%}
{%- set events = ref('stg_events') -%}
{%- set changed_resources = ref('int_changed_resources') -%}
{% if is_incremental() -%}
with changed as (
    select changed.*
    from {{ changed_resources }} as changed
    where {{ in_half(half, 'changed') }}
),

former as materialized (
    select intervals.*, changed.since
    from changed
    cross join lateral (
        select found.*
        from {{ this }} as found
        where {{ same_resource('found', 'changed') }} and found.from_ts < changed.since
        order by found.to_ts desc, found.from_ts desc
        limit 1
    ) as intervals
),

history as (
    select
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.effect,
        events.effect_rank, events.project_id, events.state, events.size
    from changed
    left join former using (cloud, resource_type, resource_id)
    cross join lateral (
        select found.*
        from {{ events }} as found
        where
            {{ same_resource('found', 'changed') }}
            and found.timestamp >= coalesce(former.since, '-infinity')
        offset 0
    ) as events
    union all
    select
        {{ resource('former') }}, former.platform, former.from_ts, former.from_event_id, 'create',
        0, former.project_id, former.state, former.size
    from former
    union all
    select
        {{ resource('former') }}, former.platform, former.to_ts, former.to_event_id, 'delete',
        3, null, null, null
    from former
    where former.to_ts < former.since
),

derived as (
    {{ timelines('history as events', 'true') }}
)

select
    {{ resource('derived') }}, derived.platform,
    derived.lifetime_no + coalesce(former.lifetime_no, 1) - 1 as lifetime_no,
    derived.open_left or (former.open_left and derived.lifetime_no = 1) is true as open_left,
    derived.project_id, derived.state, derived.size,
    derived.from_ts, derived.to_ts, derived.from_event_id, derived.to_event_id
from derived
left join former using (cloud, resource_type, resource_id)
where former.since is null or derived.to_ts is null or derived.to_ts >= former.since
{%- else -%}
{{ timelines(events ~ ' as events', in_half(half, 'events')) }}
{%- endif %}
{%- endmacro %}
