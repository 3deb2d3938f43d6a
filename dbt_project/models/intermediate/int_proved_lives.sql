{{ config(
    materialized='incremental', incremental_strategy='replace_changed', post_hook='{{ remember_derived() }}',
    indexes=[{'columns': ['resource_id', 'resource_type', 'cloud'], 'unique': true}]
) }}
-- When each resource lived, derived by another way than the timelines: what is void by walking a history from its end,
-- the lives as ranges from a create to the next delete. The invariant coverage compares the usage records with it, and
-- the number of events with that of the loads: no resource may have been taken for unchanged. What is new, and what
-- stands of what was proved before, it finds by itself too; a resource that had not lived before is proved from its
-- first event.
-- Derived last of what is kept, beside the usage of the month, and remembers how far that was:
-- depends_on: {{ ref('int_lifetimes') }}, {{ ref('int_changed_resources') }}
with recursive run as (
    select * from {{ ref('stg_runs') }}
),

-- What each event type does, by the newest version. Put as it is, so that the planner does not take it for one row.
effects as materialized (
    select platform, resource_type, event_type, effect
    from (
        select
            lifecycles.*,
            rank() over (
                partition by lifecycles.platform, lifecycles.resource_type order by lifecycles.version desc
            ) as age
        from {{ source('raw', 'lifecycles') }} as lifecycles
        inner join run on lifecycles.version <= run.registry_version
    ) as versions
    where age < 2 and effect <> 'ignore'
),

{% if is_incremental() -%}
proved as (
    select case when derived.registry_version = run.registry_version then derived.load_id else 0 end as load_id
    from {{ source('raw', 'derived') }} as derived
    cross join run
),

news as materialized (
    select
        events.cloud, events.resource_type, events.resource_id,
        count(*) as events, min(events.timestamp) as first_at
    from run
    cross join proved
    cross join lateral (
        select arrived.cloud, arrived.resource_type, arrived.resource_id, arrived.timestamp
        from {{ source('raw', 'events') }} as arrived
        where arrived.load_id > proved.load_id and arrived.load_id <= run.load_id
        offset 0
    ) as events
    group by events.cloud, events.resource_type, events.resource_id
),

-- Nothing that was before the first new event, and before whatever reconciliation told, can have become another.
standing as materialized (
    select
        news.cloud, news.resource_type, news.resource_id, changed.since, former.events + news.events as events,
        former.lived * tstzmultirange(tstzrange(null, changed.since)) as lived
    from news
    inner join proved on proved.load_id > 0
    cross join lateral (
        select least(news.first_at, min(told.timestamp)) as since
        from {{ source('raw', 'events') }} as told
        where {{ same_resource('told', 'news') }} and told.source = 'reconciliation'
    ) as changed
    cross join lateral (
        select found.events, found.lived
        from {{ this }} as found
        where {{ same_resource('found', 'news') }} and lower(found.lived) < changed.since
        offset 0
    ) as former
),

{% endif -%}
history as {{ '' if is_incremental() else 'not ' }}materialized (
    select
        events.cloud, events.resource_type, events.resource_id, events.timestamp, events.event_id,
        coalesce(effects.effect, 'ignore') as effect, events.source = 'reconciliation' as synthetic
    from (
        select events.*
        from
            {% if is_incremental() -%}
            news
            left join standing using (cloud, resource_type, resource_id)
            cross join lateral (
                select found.*
                from {{ source('raw', 'events') }} as found
                where
                    {{ same_resource('found', 'news') }}
                    and found.timestamp >= coalesce(standing.since, '-infinity')
                offset 0
            ) as events
            {%- else -%}
            {{ source('raw', 'events') }} as events
            {%- endif %}
        inner join run on events.load_id <= run.load_id
    ) as events
    left join effects using (platform, resource_type, event_type)
),

-- What is never void: how many events there are, and the first update.
arrived as materialized (
    select
        cloud, resource_type, resource_id, count(*) as events,
        min(timestamp) filter (where effect = 'update') as first_update,
        bool_or(synthetic and effect in ('create', 'delete')) as reconciled
    from history
    group by cloud, resource_type, resource_id
),

-- One letter an event, the last event first: c creates, d deletes, u is any other sign of life; small if synthetic.
told as (
    select
        history.cloud, history.resource_type, history.resource_id, history.timestamp, history.event_id,
        row_number() over backwards as n,
        case
            when history.effect = 'create' and history.synthetic then 'c'
            when history.effect = 'create' then 'C'
            when history.effect = 'delete' and history.synthetic then 'd'
            when history.effect = 'delete' then 'D'
            when history.synthetic then 'u'
            else 'U'
        end as letter
    from history
    inner join arrived using (cloud, resource_type, resource_id)
    where arrived.reconciled and history.effect <> 'ignore'
    window backwards as (
        partition by {{ by_resource('history') }}
        order by
            history.timestamp desc,
            case
                when history.effect = 'create' then 0
                when history.effect = 'update' then 1
                when history.effect = 'usage' then 2
                else 3
            end desc,
            history.event_id desc
    )
),

stories as (
    select cloud, resource_type, resource_id, string_agg(letter, '' order by n) as letters
    from told
    group by cloud, resource_type, resource_id
),

walk as (
    select
        cloud, resource_type, resource_id, letters, 0 as n,
        false as create_follows, false as life_follows, false as void
    from stories
    union all
    select
        cloud, resource_type, resource_id, letters, n + 1,
        case
            when (letter = 'c' and create_follows) or (letter = 'd' and life_follows) then create_follows
            when letter = 'C' then true
            when letter in ('c', 'd', 'D') then false
            else create_follows
        end,
        case
            when (letter = 'c' and create_follows) or (letter = 'd' and life_follows) then life_follows
            when letter in ('D', 'U') then true
            when letter in ('c', 'C', 'd') then false
            else life_follows
        end,
        (letter = 'c' and create_follows) or (letter = 'd' and life_follows)
    from walk
    cross join lateral (select substr(letters, n + 1, 1) as letter) as next
    where n < length(letters)
),

void_events as (
    select told.cloud, told.resource_type, told.resource_id, told.timestamp, told.event_id
    from told
    inner join walk using (cloud, resource_type, resource_id, n)
    where walk.void
),

-- Each instant of a resource once: nothing but creates and deletes opens and closes, save the very first update.
instants as materialized (
    select
        history.cloud, history.resource_type, history.resource_id, history.timestamp,
        bool_or(history.effect = 'create') as creates,
        bool_or(history.effect = 'delete') as deletes
    from history
    where
        history.effect in ('create', 'delete')
        and not exists (
            select from void_events as void
            where
                void.cloud = history.cloud and void.resource_type = history.resource_type
                and void.resource_id = history.resource_id
                and void.timestamp = history.timestamp and void.event_id = history.event_id
        )
    group by history.cloud, history.resource_type, history.resource_id, history.timestamp
),

-- An update opens only before anything else, or at the instant of a first delete.
begun_by_update as (
    select arrived.cloud, arrived.resource_type, arrived.resource_id, arrived.first_update as timestamp
    from arrived
    where
        arrived.first_update is not null
        {%- if is_incremental() %}
        and not exists (select from standing where {{ same_resource('standing', 'arrived') }})
        {%- endif %}
        and not exists (
            select from instants
            where
                instants.cloud = arrived.cloud and instants.resource_type = arrived.resource_type
                and instants.resource_id = arrived.resource_id
                and (
                    instants.timestamp < arrived.first_update
                    or (instants.timestamp = arrived.first_update and instants.creates)
                )
        )
),

-- An instant with both a create and a delete leaves the resource as open or closed as it was.
turns as (
    select cloud, resource_type, resource_id, timestamp, creates as opens
    from instants
    where creates <> deletes
    union all
    select cloud, resource_type, resource_id, timestamp, true
    from begun_by_update
    {%- if is_incremental() %}
    union all
    select cloud, resource_type, resource_id, since, true
    from standing
    where upper(lived) = since
    {%- endif %}
),

openings as (
    select
        cloud, resource_type, resource_id, timestamp, opens,
        min(timestamp) filter (where not opens) over (
            partition by {{ by_resource('turns') }} order by timestamp desc, opens
            rows between unbounded preceding and current row
        ) as next_delete
    from turns
),

lived as (
    select
        cloud, resource_type, resource_id,
        range_agg(tstzrange(timestamp, next_delete)) as lived
    from openings
    where opens
    group by cloud, resource_type, resource_id
)

-- Put together without a join: of how many lives there are, the planner knows next to nothing.
select cloud, resource_type, resource_id, sum(events)::bigint as events, coalesce(range_agg(lived), '{}') as lived
from (
    {% if is_incremental() -%}
    select cloud, resource_type, resource_id, events, lived from standing
    union all
    select cloud, resource_type, resource_id, events, null from arrived
    where not exists (select from standing where {{ same_resource('standing', 'arrived') }})
    {%- else -%}
    select cloud, resource_type, resource_id, events, null::tstzmultirange as lived from arrived
    {%- endif %}
    union all
    select cloud, resource_type, resource_id, 0, lived from lived
) as parts
group by cloud, resource_type, resource_id
