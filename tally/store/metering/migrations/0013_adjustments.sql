-- What relations add to bills and take from them, and what is owed to partners, line by line as the bills show it
-- (rule 29). Small: a few rows a bill.
create table ledger.adjustments (
    run_id uuid not null references ledger.runs (id),
    cloud text collate "C" not null,     -- of the bill
    project_id text collate "C" not null,
    relation_id uuid not null,           -- the relation that agrees on it
    place integer not null check (place >= 0),   -- in the list of the relation
    sign smallint not null default 1 check (sign in (1, -1)),
    reverses_run_id uuid,                -- the run whose bill a reversal takes back, with its adjustments
    type text not null check (type in ('surcharge', 'discount', 'project_discount', 'kickback')),
    relation_type text not null,
    source_cloud text collate "C" not null,      -- the billed project, or a group that it belongs to
    source_project_id text collate "C" not null,
    target_cloud text collate "C" not null,      -- of a kickback, the partner that it is owed to
    target_project_id text collate "C" not null,
    target_name text not null,
    scope text not null,                 -- 'all', or platform.resource_type
    rate numeric not null check (rate between 0 and 1),
    description text not null,
    base numeric(18, 2) not null,        -- what the rate is of, rounded for reading
    amount numeric(18, 2) not null,      -- rounded once; part of the total of the bill, but for a kickback
    currency text not null,
    primary key (run_id, cloud, project_id, relation_id, place, sign),
    check ((sign = -1) = (reverses_run_id is not null))
);

create trigger never_updated before update on ledger.adjustments
    for each statement execute function ledger.refuse_change();
create trigger finalized_insert after insert on ledger.adjustments referencing new table as changed
    for each statement execute function ledger.refuse_change_of_finalized();
create trigger finalized_delete after delete on ledger.adjustments referencing old table as changed
    for each statement execute function ledger.refuse_change_of_finalized();
create trigger finalized_truncate before truncate on ledger.adjustments
    for each statement execute function ledger.refuse_truncate_if_finalized();

-- The lines of the bills that count.
create view ledger.effective_adjustments as
select sets.run_id as as_of_run_id, a.*
from ledger.run_sets as sets
inner join ledger.adjustments as a on a.run_id = sets.member_id
where
    a.sign = 1
    and not exists (
        select from ledger.adjustments as reversal
        inner join ledger.run_sets as reversing on reversing.member_id = reversal.run_id
        where
            reversing.run_id = sets.run_id and reversal.sign = -1 and reversal.reverses_run_id = a.run_id
            and reversal.cloud = a.cloud and reversal.project_id = a.project_id
            and reversal.relation_id = a.relation_id and reversal.place = a.place
    );
