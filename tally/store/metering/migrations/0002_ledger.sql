-- What has been metered and rated, run by run. A finalized run and its records never change.
create schema if not exists ledger;

create table ledger.pricing_versions (
    version text primary key,
    valid_from date not null check (extract(day from valid_from) = 1),   -- the first month it holds for
    valid_to date check (valid_to > valid_from and extract(day from valid_to) = 1), -- the first it no longer does
    currency text not null check (currency ~ '^[A-Z]{3}$'),
    content jsonb not null,
    content_hash text not null,
    loaded_at timestamptz not null default now()
);
create unique index pricing_versions_valid_from on ledger.pricing_versions (valid_from);

create table ledger.prices (
    version text not null references ledger.pricing_versions (version),
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    metric text collate "C" not null,
    formula text not null check (formula in ('time_gauge', 'counter')),
    price numeric not null check (price >= 0),   -- per unit and hour (time_gauge), or per unit (counter)
    primary key (version, platform, resource_type, metric)
);

create table ledger.price_modifiers (
    version text not null references ledger.pricing_versions (version),
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    kind text not null check (kind in ('state', 'type')),
    value text collate "C" not null,
    modifier numeric not null check (modifier >= 0),
    primary key (version, platform, resource_type, kind, value)
);

-- What a version deliberately leaves free. metric '*' is the whole resource type.
create table ledger.unpriced (
    version text not null references ledger.pricing_versions (version),
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    metric text collate "C" not null,
    primary key (version, platform, resource_type, metric)
);

create table ledger.runs (
    id uuid primary key default gen_random_uuid(),
    period text not null check (period ~ '^\d{4}-\d{2}$'),
    period_from timestamptz not null,
    period_to timestamptz not null check (period_to > period_from),
    zone text not null,
    kind text not null check (kind in ('regular', 'correction')),
    corrects_run_id uuid references ledger.runs (id),
    status text not null check (status in ('running', 'completed', 'finalized', 'superseded', 'failed')),
    preliminary boolean not null,        -- the month had not ended: month to date, never finalized
    metered_to timestamptz not null,     -- period_to, or the instant of the snapshot for a preliminary run
    load_id bigint not null references raw.loads (load_id),
    registry_version integer not null,
    pricing_version text references ledger.pricing_versions (version),
    pricing_hash text,
    code_version text not null,
    inputs_hash text,
    outputs_hash text,
    failure text,
    started_at timestamptz not null default now(),
    completed_at timestamptz,
    finalized_at timestamptz,
    check ((kind = 'correction') = (corrects_run_id is not null)),
    check (status <> 'finalized' or (not preliminary and finalized_at is not null))
);
-- At most one live regular run per period, and one that is being made (rule 17).
create unique index runs_live on ledger.runs (period) where kind = 'regular' and status in ('completed', 'finalized');
create unique index runs_running on ledger.runs (period) where status = 'running';

create table ledger.usage_records (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    id uuid not null,                    -- a hash of the run and the record: the same inputs give the same id
    run_id uuid not null references ledger.runs (id),
    sign smallint not null check (sign in (1, -1)),   -- -1 marks a reversal
    reverses_id uuid,                    -- the record that a reversal negates
    project_id text collate "C" not null,
    state text collate "C" not null,
    lifetime_no integer not null,        -- the resource's n-th life
    from_ts timestamptz not null,
    to_ts timestamptz not null check (to_ts > from_ts),
    from_event_id text collate "C",      -- the event that began it; null at the edge of the period
    to_event_id text collate "C",        -- the event that ended it; likewise
    usage jsonb not null,                -- minutes, count, gauges, attributes and counters
    primary key (cloud, resource_type, resource_id, id),
    unique (cloud, resource_type, resource_id, reverses_id),
    check ((sign = -1) = (reverses_id is not null))
);
create index usage_records_run on ledger.usage_records (run_id);

create table ledger.rated_records (
    cloud text collate "C" not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    resource_id text collate "C" not null,
    id uuid not null,
    run_id uuid not null references ledger.runs (id),
    usage_record_id uuid not null,
    reverses_id uuid,
    project_id text collate "C" not null,
    dimension text collate "C" not null, -- the usage metric this cost refers to
    quantity numeric not null,           -- of the metric, as metered
    price numeric not null,
    state_modifier numeric not null,     -- 1 for counters
    type_modifier numeric not null,      -- likewise
    amount_exact numeric(38, 12) not null,   -- for reading and drift
    amount numeric(18, 2) not null,
    currency text not null,
    pricing_version text not null,
    primary key (cloud, resource_type, resource_id, id),
    foreign key (cloud, resource_type, resource_id, usage_record_id)
        references ledger.usage_records (cloud, resource_type, resource_id, id)
);
create index rated_records_run on ledger.rated_records (run_id);

-- Where each project of a run is billed: by itself, or inside the bill of the root of its tree.
create table ledger.attributions (
    run_id uuid not null references ledger.runs (id),
    cloud text collate "C" not null,
    project_id text collate "C" not null,
    billed_cloud text collate "C" not null,
    billed_project_id text collate "C" not null,
    relation_id uuid,                    -- the relation that attributes it; null for a root
    relation_type text,
    depth integer not null check (depth >= 0),
    primary key (run_id, cloud, project_id)
);

create table ledger.bills (
    run_id uuid not null references ledger.runs (id),
    cloud text collate "C" not null,
    project_id text collate "C" not null,
    platform text collate "C" not null,
    total numeric(18, 2) not null,
    currency text not null,
    document text not null,              -- the JSON document, byte for byte
    document_hash text not null,
    primary key (run_id, cloud, project_id)
);

-- What stands between a run and its finalization, or is worth knowing.
create table ledger.findings (
    run_id uuid not null references ledger.runs (id),
    kind text not null,                  -- open_left, anomaly, unpriced, missing_gauge, unlisted_state, ...
    blocking boolean not null,
    cloud text not null default '',
    platform text not null default '',
    resource_type text not null default '',
    subject text not null,               -- a resource, a metric, an event: what the detail is about
    detail text not null,
    primary key (run_id, kind, cloud, platform, resource_type, subject)
);

create table ledger.checks (
    run_id uuid not null references ledger.runs (id),
    name text not null,
    passed boolean not null,
    violations bigint not null,
    detail text not null,
    checked_at timestamptz not null default clock_timestamp(),
    primary key (run_id, name)
);

create table ledger.waivers (
    period text not null,
    kind text not null,                  -- of findings
    reason text not null check (reason <> ''),
    actor text not null,
    created_at timestamptz not null default now(),
    primary key (period, kind)
);
