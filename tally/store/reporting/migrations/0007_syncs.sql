-- What each reconciliation of a cloud found and wrote: when was a cloud last compared with its platform, and with what?
create table reporting.syncs (
    id bigint generated always as identity primary key,
    cloud text collate "C" not null references reporting.clouds (cloud),
    status text not null default 'running'
        check (status in ('running', 'completed', 'incomplete', 'guarded', 'failed', 'broken_off')),
    actor text not null,
    accept_deletions boolean not null,   -- whether the guard against too many deletions was overridden
    started_at timestamptz not null,     -- by the clock that the events of the sync go by
    finished_at timestamptz,
    errors text[] not null default '{}', -- one line each, for a person
    check ((status = 'running') = (finished_at is null))
);
create index syncs_cloud on reporting.syncs (cloud, id);
create unique index syncs_running on reporting.syncs (cloud) where status = 'running';

-- One row per resource type of a finished sync.
create table reporting.sync_listings (
    cloud text collate "C" not null,
    resource_type text collate "C" not null,
    sync_id bigint not null references reporting.syncs (id) on delete cascade,
    started_at timestamptz not null,     -- when this listing began
    status text not null check (status in ('compared', 'incomplete', 'guarded')),
    listed integer not null,             -- resources that exist, as the platform says
    unknown integer not null,            -- resources of which the platform could not tell
    open_before integer not null,        -- resources that existed as the inventory said
    created integer not null,
    updated integer not null,
    deleted integer not null,
    skipped integer not null,            -- differences that wait for the next sync
    rejected integer not null,           -- synthetic events that became dead letters
    withheld integer not null,           -- deletions that the guard held back
    primary key (sync_id, resource_type)
);
create index sync_listings_compared on reporting.sync_listings (cloud, resource_type, sync_id)
    where status = 'compared';

-- What a finished sync has said stays as it was said. Old syncs may be deleted: no event refers to them.
create trigger finished_is_finished before update on reporting.syncs
    for each row when (old.status <> 'running') execute function reporting.refuse_change();
create trigger append_only before update on reporting.sync_listings
    for each statement execute function reporting.refuse_change();
