-- Versions of resource types that give stored events another meaning, until the resources of these events are folded
-- again. A row is written with the version, and outlives whoever folds: what is left is done at the next start.
create table reporting.pending_folds (
    version integer primary key references reporting.resource_types (version),
    noted_at timestamptz not null default now()
);
