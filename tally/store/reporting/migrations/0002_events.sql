-- The single source of truth, its guard against duplicates, its dead letters and its projection.

-- Led by the resource: that is how every timeline reads it (DESIGN.md section 3). The identity of an event is
-- (cloud, event_id), which the narrow table event_ids keeps unique; compression never touches that one.
create table reporting.events (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    timestamp timestamptz not null,
    event_id text collate "C" not null,
    event_type text collate "C" not null,
    project_id text collate "C" not null,
    source text collate "C" not null check (source in ('collector', 'reconciliation')),
    payload jsonb not null,
    received_at timestamptz not null default now(),
    primary key (cloud, resource_type, resource_id, timestamp, event_id)
);
create trigger append_only before update or delete or truncate on reporting.events
    for each statement execute function reporting.refuse_change();

create table reporting.event_ids (
    cloud text collate "C" not null,
    event_id text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    timestamp timestamptz not null,
    content_hash bytea not null,         -- sha256 of the canonical event: tells a duplicate from a conflict
    batch_id bigint not null,            -- the transaction that brought it
    primary key (cloud, event_id)
);
create index event_ids_batch on reporting.event_ids (batch_id);
create trigger append_only before update or delete or truncate on reporting.event_ids
    for each statement execute function reporting.refuse_change();

-- An outbox: the ingest transaction adds its batch, the load into the metering database takes it away after it has
-- committed there. So an event that commits while a load reads is in that load or in the next, never in neither.
create sequence reporting.batch_ids;
create table reporting.pending_batches (
    batch_id bigint primary key
);

-- Raw bytes, once per (cloud, event_id, content): what cannot be understood can still be inspected and replayed.
create table reporting.rejected_events (
    cloud text collate "C" not null,     -- '' where the input does not tell
    event_id text collate "C" not null,  -- likewise
    content_hash bytea not null,         -- as in event_ids; sha256 of raw where raw is no event
    reason text not null,                -- a stable word, such as event_id_conflict
    detail text not null,                -- one line for a person
    raw bytea not null,
    platform text collate "C" not null default '',
    resource_type text collate "C" not null default '',
    received_at timestamptz not null default now(),
    replayed_at timestamptz,
    primary key (cloud, event_id, content_hash)
);
create index rejected_events_reason on reporting.rejected_events (reason, received_at);

-- DERIVED from events: the fold of a resource's history (rule 11). Rebuildable at any time.
create table reporting.current_resources (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    project_id text collate "C" not null,
    state text not null,                 -- of the last configuration; 'deleted' once its lifetime is closed
    size jsonb not null default '{}',
    created_at timestamptz,              -- start of the last lifetime; null if the resource never lived
    deleted_at timestamptz,              -- end of the last lifetime; null while it is open
    last_event_id text collate "C" not null,
    last_event_type text collate "C" not null,
    last_event_at timestamptz not null,
    last_payload jsonb not null,
    last_state text not null,            -- the state of the last configuration, also after deletion
    has_synthetic boolean not null,      -- whether reconciliation wrote any of its events: they can be voided
    primary key (cloud, resource_type, resource_id)
) with (fillfactor = 80);                -- most events rewrite a row, and do so in place where its page has room
create index current_resources_project on reporting.current_resources (project_id);
create index current_resources_type on reporting.current_resources (resource_type, state);
