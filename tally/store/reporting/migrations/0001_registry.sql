-- Who may be metered: installations, what their resources look like, and whose they are.
create schema if not exists reporting;

-- A cloud is one installation of exactly one platform (rule 1).
create table reporting.clouds (
    cloud text collate "C" primary key,
    platform text collate "C" not null,
    created_at timestamptz not null default now()
);

-- The version counts over all resource types, so that a run names the state of the whole registry with one number.
-- A definition is never edited: a change is a new row, and the row with the greatest version holds.
create table reporting.resource_types (
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    version integer not null unique check (version > 0),
    definition jsonb not null,           -- size (JSON Schema), lifecycle, normal_states, descriptive, counters
    content_hash text not null,          -- sha256 of the canonical definition
    origin text not null check (origin in ('builtin', 'operator')),
    created_at timestamptz not null default now(),
    primary key (platform, resource_type, version)
);

create table reporting.projects (
    id uuid primary key default gen_random_uuid(),
    platform text collate "C" not null,
    cloud text collate "C" not null references reporting.clouds (cloud),
    external_id text collate "C" not null,
    name text,
    metadata jsonb not null default '{}',
    created_at timestamptz not null default now(),
    unique (cloud, external_id)
);

-- Temporal and append-only: closing or patching a relation appends a version, and the greatest one holds (rule 28).
create table reporting.project_relations (
    id uuid not null,
    version integer not null check (version > 0),
    source_id uuid not null references reporting.projects (id),
    target_id uuid not null references reporting.projects (id),
    relation_type text not null,
    metadata jsonb not null default '{}',
    valid_from timestamptz not null,
    valid_to timestamptz check (valid_to > valid_from),
    created_at timestamptz not null default now(),
    primary key (id, version),
    check (source_id <> target_id)
);
create index project_relations_source on reporting.project_relations (source_id);
create index project_relations_target on reporting.project_relations (target_id);

create table reporting.audit_log (
    id bigint generated always as identity primary key,
    at timestamptz not null default clock_timestamp(),
    actor text not null,                 -- the acting identity: an operating system user, a credential, a service
    action text not null,                -- verb.noun, such as project.create
    subject text not null,               -- what was acted on
    detail jsonb not null default '{}'
);

create function reporting.refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% on %.% is refused: its rows are append-only',
        tg_op, tg_table_schema, tg_table_name using errcode = 'TA001';
end $$;

create trigger append_only before update or delete or truncate on reporting.audit_log
    for each statement execute function reporting.refuse_change();
create trigger append_only before update or delete or truncate on reporting.project_relations
    for each statement execute function reporting.refuse_change();
create trigger append_only before update or delete or truncate on reporting.resource_types
    for each statement execute function reporting.refuse_change();
