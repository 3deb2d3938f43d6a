-- The last load that took batches out of the outbox: one row, or none before the first. A metering database that does not hold
-- this load lacks what it took: it was restored from a backup, or is another one.
create table reporting.last_load (
    single boolean primary key default true check (single),
    load_id bigint not null,
    started_at timestamptz not null
);
