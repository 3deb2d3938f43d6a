-- What a run reads: a copy of the reporting database by arrival, frozen by load id (rule 18).
create schema if not exists raw;

create table raw.loads (
    load_id bigint primary key,          -- counts up from 1; a run reads what has a load id up to its own
    started_at timestamptz not null,     -- the instant of the snapshot: a preliminary run clips here
    registry_version integer not null,
    events bigint not null,
    completed_at timestamptz not null default clock_timestamp()
);

create table raw.events (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    timestamp timestamptz not null,
    event_id text collate "C" not null,
    event_type text collate "C" not null,
    project_id text collate "C" not null,
    source text collate "C" not null,
    payload jsonb not null,
    load_id bigint not null references raw.loads (load_id) deferrable initially deferred,
    primary key (cloud, resource_type, resource_id, timestamp, event_id)
);
create index events_load on raw.events (load_id);

-- One row per (platform, resource_type, event_type, version of the registry): what an event does.
create table raw.lifecycles (
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    event_type text collate "C" not null,
    version integer not null,
    effect text collate "C" not null check (effect in ('create', 'update', 'delete', 'usage', 'ignore')),
    state text,                          -- the state it implies; null leaves the state as it was
    primary key (platform, resource_type, event_type, version)
);

create table raw.resource_types (
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    version integer not null unique,
    normal_states text[] not null,       -- states that cost full price without being listed
    descriptive text[] not null,         -- numeric attributes that describe rather than measure
    primary key (platform, resource_type, version)
);

create table raw.projects (
    id uuid primary key,
    platform text collate "C" not null,
    cloud text collate "C" not null,
    external_id text collate "C" not null,
    name text,
    load_id bigint not null,
    unique (cloud, external_id)
);

create table raw.project_relations (
    id uuid not null,
    version integer not null,
    source_id uuid not null,
    target_id uuid not null,
    relation_type text not null,
    metadata jsonb not null,
    valid_from timestamptz not null,
    valid_to timestamptz,
    load_id bigint not null,
    primary key (id, version)
);

-- The projection as it was in the snapshot of the last load: a check compares it with the timelines (rule 11).
create table raw.current_resources (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    project_id text collate "C" not null,
    last_state text not null,
    size jsonb not null,
    created_at timestamptz,
    deleted_at timestamptz,
    primary key (cloud, resource_type, resource_id)
);
