-- Counters that are sampled: what a run fetched from VictoriaMetrics, kept beside its events so that a replay needs no
-- VictoriaMetrics (rules 15 and 18). Big tables are keyed by the resource; small ones by the fetch.

create table raw.counter_fetches (
    fetch_id bigint primary key,         -- counts up from 1
    period text not null,
    period_from timestamptz not null,
    configuration_hash text not null,    -- of the sources: an unfinished fetch goes on only with the same ones
    started_at timestamptz not null,
    completed_at timestamptz,
    content_hash text,                   -- of what was fetched, once it is complete
    dropped boolean not null default false   -- the increments of runs that no longer count are not kept
);

create table raw.counter_sources (
    fetch_id bigint not null references raw.counter_fetches (fetch_id),
    source text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    metric text collate "C" not null,
    selector text not null,
    unit numeric not null,
    clouds text[] not null,              -- that fail with it
    states text[],                       -- in which samples are expected; null: in every state
    max_gap interval not null,           -- a longer span without a sample is a hole
    reach_from timestamptz not null,     -- what is fetched: from so long before the period
    reach_to timestamptz not null,       -- until so long after it, as far as that is over
    failure text,                        -- why it could not be fetched; then nothing of it is kept
    primary key (fetch_id, source)
);

-- What has been fetched so far: a fetch that was broken off goes on from here.
create table raw.counter_windows (
    fetch_id bigint not null,
    source text collate "C" not null,
    from_ts timestamptz not null,
    to_ts timestamptz not null,
    fetched_at timestamptz not null,
    samples bigint not null,
    primary key (fetch_id, source, from_ts, to_ts),
    foreign key (fetch_id, source) references raw.counter_sources (fetch_id, source)
);

-- Samples while a fetch goes on: they turn into increments at its end, and go. Logged, as the windows above are: a crash
-- must not take samples away that count as fetched.
create table raw.counter_samples (
    cloud text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    fetch_id bigint not null,
    source text collate "C" not null,
    series_id uuid not null,             -- a hash of the labels, but for those that tell replicas apart
    replica_id uuid not null,            -- and of those
    from_ts timestamptz not null,        -- the window
    part integer not null,
    series text not null,                -- the labels, to read
    at_ms bigint[] not null,             -- milliseconds since 1970, as VictoriaMetrics keeps them
    value numeric[] not null,
    primary key (cloud, resource_type, resource_id, fetch_id, source, series_id, replica_id, from_ts, part)
);
create index counter_samples_fetch on raw.counter_samples (fetch_id, source);

create table raw.counter_series (
    cloud text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    fetch_id bigint not null,
    source text collate "C" not null,
    series_id uuid not null,
    series text not null,
    first_at timestamptz not null,
    last_at timestamptz not null,
    samples bigint not null,             -- after replicas were made one
    primary key (cloud, resource_type, resource_id, fetch_id, source, series_id)
);
create index counter_series_fetch on raw.counter_series (fetch_id);

-- Spans between two samples of a series that are longer than its source lets pass.
create table raw.counter_gaps (
    cloud text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    fetch_id bigint not null,
    source text collate "C" not null,
    series_id uuid not null,
    from_ts timestamptz not null,
    to_ts timestamptz not null,
    primary key (cloud, resource_type, resource_id, fetch_id, source, series_id, from_ts)
);
create index counter_gaps_fetch on raw.counter_gaps (fetch_id);

-- What series gained: three arrays of one length, so that a month of a resource is some rows, not one a minute.
create table raw.counter_increments (
    cloud text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    fetch_id bigint not null,
    source text collate "C" not null,
    series_id uuid not null,
    part integer not null,
    since timestamptz[] not null,        -- the sample before; null for the first one of the series
    at timestamptz[] not null,           -- the sample that it belongs to
    quantity numeric[] not null,         -- in units of the metric
    primary key (cloud, resource_type, resource_id, fetch_id, source, series_id, part)
);
create index counter_increments_fetch on raw.counter_increments (fetch_id);

alter table ledger.runs add column counter_fetch_id bigint references raw.counter_fetches (fetch_id);
alter table ledger.runs add column counters_hash text; -- of the content of that fetch
