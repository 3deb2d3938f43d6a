-- What a person should look at: one row per kind and subject. What blocks finalization is the business of a policy.
{%- set changing = prices_change() %}
with run as (
    select * from {{ ref('stg_runs') }}
),

-- What prices leave open is asked of each version for the part of the month that it prices.
parts as (
    select * from {{ ref('stg_run_prices') }}
),

usage_records as not materialized (
    {% if changing -%}
    select records.*, parts.pricing_version
    from {{ ref('int_usage_records') }} as records
    inner join parts on parts.from_ts < records.to_ts and records.from_ts < parts.to_ts
    {%- else -%}
    select * from {{ ref('int_usage_records') }}
    {%- endif %}
),

-- What there is of sizes and states, once each: little beside the records.
{% for what in ('size', 'state') -%}
{{ what }}s as materialized (
    select *
    from (
        select distinct platform, resource_type, {{ what }} {{- ', pricing_version' if changing }} from usage_records
    ) as {{ what }}s
    {{ 'inner join parts using (pricing_version)' if changing else 'cross join parts' }}
),

{% endfor -%}
lifetimes as not materialized (
    select * from {{ ref('int_lifetimes') }}
),

lives as (
    select
        cloud, resource_type, resource_id,
        min(opened_at) as first_opened_at, range_agg(tstzrange(opened_at, closed_at, '[]')) as lived
    from lifetimes
    group by cloud, resource_type, resource_id
),

-- Those that may be anomalies: next to none beside all of the period.
events as materialized (
    select
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.event_type, events.effect,
        events.usage, lives.first_opened_at,
        coalesce(lives.lived @> events.timestamp, false) as lives
    from {{ events_of_period('events') }}
    left join lives
        on
            lives.cloud = events.cloud and lives.resource_type = events.resource_type
            and lives.resource_id = events.resource_id
    where
        events.timestamp < run.metered_to
        and (events.effect in ('update', 'usage', 'delete', 'unknown') or events.usage is not null)
        and (
            events.effect = 'unknown' or events.usage <> '{}'
            or not coalesce(lives.lived @> events.timestamp, false)
        )
        and {{ is_not_void('events') }}
),

-- Events at an instant at which their resource had no life. A delete of what is closed already is nothing.
lifeless as (
    select
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.event_type,
        case
            when events.effect = 'delete' and events.first_opened_at <= events.timestamp then null
            when events.effect = 'delete' then 'delete_without_life'
            when events.effect = 'usage' and events.first_opened_at <= events.timestamp then 'after_delete'
            when events.effect = 'usage' then 'usage_without_life'
            else 'after_delete'
        end as anomaly
    from events
    where events.effect <> 'unknown' and not events.lives
),

undefined as (
    select
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.event_type,
        'unknown_event_type' as anomaly
    from events
    where events.effect = 'unknown'
),

-- Usage that no interval takes: of a life of zero length, or of a delete that ends nothing.
uncounted as (
    select
        {{ resource('events') }}, events.platform, events.timestamp, events.event_id, events.event_type,
        'usage_without_interval' as anomaly
    from events
    where
        events.usage <> '{}'
        and not exists (
            select from {{ ref('int_usage_increments') }} as increments
            where
                {{ same_resource('increments', 'events') }}
                and increments.timestamp = events.timestamp and increments.event_id = events.event_id
        )
),

-- One anomaly an event: what it is without a life says more than that its usage was not counted.
anomalies as (
    select distinct on (found.cloud, found.resource_type, found.event_id) found.*
    from (
        select *, 1 as precedence from undefined
        union all
        select *, 1 from lifeless
        where anomaly is not null
        union all
        select *, 2 from uncounted
    ) as found
    order by found.cloud, found.resource_type, found.event_id, found.precedence
),

gauges as (
    select distinct sizes.platform, sizes.resource_type, sizes.pricing_version, gauge.key as metric
    from sizes
    cross join jsonb_each(sizes.size) as gauge
    where jsonb_typeof(gauge.value) = 'number'
),

counters as (
    select distinct increments.platform, increments.resource_type, parts.pricing_version, increments.metric
    from {{ ref('int_usage_increments') }} as increments
    inner join parts
        on
            parts.from_ts <= increments.timestamp
            and (increments.timestamp < parts.to_ts or parts.to_ts = (select run.period_to from run))
),

-- A name that a size and a counter share: a record has room for one of them, and the counter takes it.
ambiguous as (
    select distinct counters.platform, counters.resource_type, counters.metric
    from counters
    inner join sizes using (platform, resource_type, pricing_version)
    where jsonb_exists(sizes.size, counters.metric)
),

prices as (
    select prices.*, parts.pricing_version
    from {{ source('ledger', 'prices') }} as prices
    inner join parts on prices.version = parts.pricing_version
),

-- '*' stands for a resource type that has no price at all; a counter may bear that name, too.
unpriced as (
    select distinct metrics.platform, metrics.resource_type, metrics.metric
    from (
        select *, false as is_type from gauges
        union
        select *, false from counters
        union
        select platform, resource_type, pricing_version, '*', true from states
    ) as metrics
    left join {{ ref('stg_resource_types') }} as types using (platform, resource_type)
    where
        not coalesce(metrics.metric = any(types.descriptive), false)
        and not exists (
            select from prices
            where
                prices.version = metrics.pricing_version and prices.platform = metrics.platform
                and prices.resource_type = metrics.resource_type
                and (metrics.is_type or prices.metric = metrics.metric)
        )
        and not exists (
            select from {{ source('ledger', 'unpriced') }} as listed
            where
                listed.version = metrics.pricing_version and listed.platform = metrics.platform
                and listed.resource_type = metrics.resource_type and listed.metric in (metrics.metric, '*')
        )
),

lacking as (
    select sizes.platform, sizes.resource_type, sizes.pricing_version, sizes.size, prices.metric
    from sizes
    inner join prices using (platform, resource_type, pricing_version)
    where prices.formula = 'time_gauge' and jsonb_typeof(sizes.size -> prices.metric) is distinct from 'number'
),

-- A counter of that name, or count, would do.
missing_gauges as (
    select usage_records.cloud, usage_records.platform, usage_records.resource_type, usage_records.resource_id,
        string_agg(distinct lacking.metric, ', ') as metrics
    from usage_records
    inner join lacking using (platform, resource_type, size {{- ', pricing_version' if changing }})
    where jsonb_typeof(usage_records.usage -> lacking.metric) is distinct from 'number'
    group by usage_records.cloud, usage_records.platform, usage_records.resource_type, usage_records.resource_id
),

modifiers as (
    select modifiers.* from {{ source('ledger', 'price_modifiers') }} as modifiers
    inner join parts on modifiers.version = parts.pricing_version
),

unlisted as (
    select distinct met.platform, met.resource_type, met.kind, met.value
    from (
        select platform, resource_type, pricing_version, 'state' as kind, state as value from states
        union
        select platform, resource_type, pricing_version, 'type', size ->> 'type' from sizes
    ) as met
    left join {{ ref('stg_resource_types') }} as types using (platform, resource_type)
    where
        exists (
            select from modifiers
            where
                modifiers.version = met.pricing_version and modifiers.platform = met.platform
                and modifiers.resource_type = met.resource_type and modifiers.kind = met.kind
        )
        and not exists (
            select from modifiers
            where
                modifiers.version = met.pricing_version and modifiers.platform = met.platform
                and modifiers.resource_type = met.resource_type and modifiers.kind = met.kind
                and modifiers.value = met.value
        )
        and not (met.kind = 'state' and coalesce(met.value = any(types.normal_states), false))
),

counter_sources as (
    select * from {{ ref('stg_counter_sources') }}
),

-- Sampled usage that no life takes. A life that ended before the period takes what the run before could see.
unplaced as (
    select
        {{ resource('sampled') }}, counter_sources.platform, sampled.metric,
        sum(sampled.quantity) as quantity, min(sampled.timestamp) as first_at, max(sampled.timestamp) as last_at
    from {{ ref('stg_counter_increments') }} as sampled
    inner join run on sampled.timestamp >= run.period_from and sampled.timestamp < run.metered_to
    inner join counter_sources on sampled.source = counter_sources.source
    {{ of_metered_resources('sampled') }}
    where
        sampled.since is not null
        and not exists (
            select from lifetimes
            where
                {{ same_resource('lifetimes', 'sampled') }}
                and lifetimes.opened_at <= sampled.timestamp
                and (
                    lifetimes.closed_at is null
                    or (
                        lifetimes.opened_at < lifetimes.closed_at and lifetimes.closed_at > sampled.since
                        and (
                            lifetimes.closed_at > run.period_from
                            or sampled.timestamp < run.period_from + (run.period_from - counter_sources.reach_from)
                        )
                    )
                )
        )
    group by sampled.cloud, sampled.resource_type, sampled.resource_id, counter_sources.platform, sampled.metric
),

-- One finding per cloud and source, whatever the number of resources.
holes as (
    select
        cloud, platform, resource_type, source, max_gap, count(distinct resource_id) as resources,
        (array_agg(resource_id || ' from ' || from_ts || ' to ' || to_ts order by from_ts, resource_id))[1] as example
    from {{ ref('int_counter_holes') }}
    group by cloud, platform, resource_type, source, max_gap
)

select
    run.run_id, found.kind,
    found.cloud, found.platform, found.resource_type, found.subject, found.detail
from run
cross join (
    select
        'open_left' as kind, lifetimes.cloud, lifetimes.platform, lifetimes.resource_type,
        lifetimes.resource_id as subject,
        'its first event is an update at ' || opened_at || ': when it began is not known' as detail
    from lifetimes
    inner join run on lifetimes.opened_at >= run.period_from and lifetimes.opened_at < run.metered_to
    {{ of_metered_resources('lifetimes') }}
    where open_left
    union all
    select 'anomaly', cloud, platform, resource_type, event_id,
        anomaly || ': ' || event_type || ' of ' || resource_id || ' at ' || timestamp
    from anomalies
    union all
    select 'unpriced', '', platform, resource_type, metric,
        'no price and not listed as unpriced in the price version'
    from unpriced
    union all
    select 'ambiguous_metric', '', platform, resource_type, metric,
        'a counter and an attribute of a size have this name: usage and prices mean the counter'
    from ambiguous
    union all
    select 'missing_gauge', cloud, platform, resource_type, resource_id,
        'the price asks for ' || metrics || ', which its size lacks'
    from missing_gauges
    union all
    select 'unlisted_' || kind, '', platform, resource_type, coalesce(value, ''),
        'not in the table of ' || kind || ' modifiers: full price'
    from unlisted
    union all
    select 'counter_source_failed', clouds.cloud, counter_sources.platform, counter_sources.resource_type,
        counter_sources.source, counter_sources.metric || ' was not fetched: ' || counter_sources.failure
    from counter_sources
    cross join unnest(counter_sources.clouds) as clouds (cloud)
    where counter_sources.failure is not null
    union all
    select 'counter_hole', cloud, platform, resource_type, source,
        'no sample for longer than ' || max_gap || ' of ' || resources || ' resource(s), such as ' || example
    from holes
    union all
    select 'counter_unplaced', cloud, platform, resource_type, resource_id || ' ' || metric,
        trim_scale(quantity) || ' from ' || first_at || ' to ' || last_at || ': no life of the resource takes it'
    from unplaced
) as found
