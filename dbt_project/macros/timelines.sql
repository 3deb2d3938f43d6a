{# The timelines: one row per interval of constant (size, state, project_id) in each life of each resource
   (rules 8 to 10). to_ts is null while the life is open. The last configuration of a life is kept even if its
   length is zero (from_ts = to_ts): the projection is compared with it, and usage passes it over.

   The rank of an effect, by which the events of one instant are ordered, stands for the effect: a number is cheaper to
   carry and to compare than a name.

   All windows are of one order, so that one sort serves them. It begins with the id of a resource, which tells two of
   them apart in one comparison, where clouds and types are mostly the same. events are those of the resources to derive,
   under that name; half is a condition: the two halves are derived in two sessions at the same time. #}
{% macro timelines(events, half) -%}
{%- set create, update, delete = 0, 1, 3 -%}
with events as (
    select events.*
    from {{ events }}
    where
        events.effect in ('create', 'update', 'delete')
        and {{ is_not_void('events') }}
        and {{ half }}
),

-- An instant with both a create and a delete leaves the resource as open or closed as it was before.
instants as (
    select
        cloud, platform, resource_type, resource_id, timestamp, effect_rank, event_id, project_id, state, size,
        first_value(effect_rank) over instant = {{ create }} and last_value(effect_rank) over instant = {{ delete }}
            as recreates
    from events
    window instant as (
        partition by resource_id, resource_type, cloud, timestamp order by effect_rank, event_id
        rows between unbounded preceding and unbounded following
    )
),

-- What has a say in whether the resource is open: the last create or delete before, or else that it began with an
-- update.
ordered as (
    select
        *,
        lag(timestamp) over before as previous_at,
        coalesce(first_value(effect_rank) over before, effect_rank) = {{ update }} as begun_by_update,
        coalesce(
            raw.last_known(case when not recreates then nullif(effect_rank, {{ update }}) end) over before
            = {{ create }},
            first_value(effect_rank) over before = {{ update }},
            false
        ) as was_open
    from instants
    window before as (
        partition by resource_id, resource_type, cloud order by timestamp, effect_rank, event_id
        rows between unbounded preceding and 1 preceding
    )
),

judged as (
    select
        *,
        -- A re-creation of an open resource ends the old life by opening the new one.
        (effect_rank = {{ update }} and previous_at is null)
        or (
            effect_rank = {{ create }}
            and case when recreates then previous_at is distinct from timestamp else not was_open end
        ) as opens,
        effect_rank = {{ delete }} and recreates <> was_open as closes
    from ordered
),

-- What an event does not say stays as it was: the event that opens a life says everything, so that nothing crosses from
-- one life to the next.
lived as (
    select
        cloud, platform, resource_type, resource_id, project_id, timestamp, effect_rank, event_id, closes,
        begun_by_update,
        sum(opens::integer) over life as lifetime_no,
        lead(timestamp) over life as to_ts,
        lead(event_id) over life as to_event_id,
        coalesce(lead(opens or closes) over life, true) as last_of_life,
        raw.last_known(case when opens then coalesce(size, '{}') else size end) over life as size,
        raw.last_known(case when opens then coalesce(state, 'unknown') else state end) over life as state
    from judged
    where opens or closes or (effect_rank <> {{ delete }} and (was_open or recreates))
    window life as (partition by resource_id, resource_type, cloud order by timestamp, effect_rank, event_id)
),

-- Zero length vanishes first, then equal neighbours of one life coalesce; 4 equals 4.0. What closes a life stays so far,
-- to end its last interval.
configured as (
    select
        cloud, platform, resource_type, resource_id, project_id, timestamp, effect_rank, event_id, closes, lifetime_no,
        begun_by_update, to_event_id, size, state
    from lived
    where closes or timestamp is distinct from to_ts or last_of_life
),

compared as (
    select
        *,
        lag(to_event_id) over life as former_to_event_id,
        closes
        or coalesce(
            lag(lifetime_no) over life <> lifetime_no
            or lag(project_id) over life <> project_id
            or lag(state) over life <> state
            or lag(size) over life <> size,
            true
        ) as starts
    from configured
    window life as (partition by resource_id, resource_type, cloud order by timestamp, effect_rank, event_id)
),

-- An interval ends where the next begins, or its life closes, by the first event of that instant.
ended as (
    select
        *,
        lead(timestamp) over life as ends_at,
        lead(former_to_event_id) over life as end_event_id
    from compared
    where starts
    window life as (partition by resource_id, resource_type, cloud order by timestamp, effect_rank, event_id)
)

select
    cloud, platform, resource_type, resource_id, lifetime_no, lifetime_no = 1 and begun_by_update as open_left,
    project_id, state,
    -- In one spelling: which of several it was last told in, an interval does not keep.
    case when size::text ~ '\.\d*0\M' then raw.plain(size) else size end as size,
    timestamp as from_ts, ends_at as to_ts, event_id as from_event_id, end_event_id as to_event_id
from ended
where not closes
{%- endmacro %}
