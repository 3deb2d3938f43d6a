-- Corrections of finalized periods (rule 20): reversals and new records, in runs of their own.

-- What a correction compares with, and how much of the month it derives again.
alter table ledger.runs add column since_load_id bigint;     -- the last load that the finalized records know
alter table ledger.runs add column scope text not null default 'all'   -- 'changed': resources with later events only
    check (scope in ('all', 'changed'));
alter table ledger.runs add column reason text;              -- why another price version was named, or all derived again
alter table ledger.runs add check ((kind = 'correction') = (since_load_id is not null));

-- A reversal is the exact negation of an effective record; the sign marks it.
alter table ledger.rated_records add column sign smallint not null default 1 check (sign in (1, -1));
alter table ledger.rated_records add check ((sign = -1) = (reverses_id is not null));
alter table ledger.rated_records add unique (cloud, resource_type, resource_id, reverses_id);

-- A correction may take back the bill or the attribution of a project, and write another.
alter table ledger.bills add column sign smallint not null default 1 check (sign in (1, -1));
alter table ledger.bills add column reverses_run_id uuid;    -- the run whose bill a reversal takes back
alter table ledger.bills add check ((sign = -1) = (reverses_run_id is not null));
alter table ledger.bills drop constraint bills_pkey;
alter table ledger.bills add primary key (run_id, cloud, project_id, sign);
alter table ledger.attributions add column sign smallint not null default 1 check (sign in (1, -1));
alter table ledger.attributions drop constraint attributions_pkey;
alter table ledger.attributions add primary key (run_id, cloud, project_id, sign);

-- The runs whose records together make up what a run comes to: a regular run is alone; a correction stands on the
-- finalized run and the corrections before it.
create view ledger.run_sets as
select run.id as run_id, member.id as member_id
from ledger.runs as run
inner join ledger.runs as member
    on
        member.id = run.id
        or (
            run.kind = 'correction' and member.period = run.period and member.status = 'finalized'
            and member.load_id <= run.load_id
        );

-- Reversals are few: what looks for them reads nothing else.
create index usage_records_reversals on ledger.usage_records (run_id) where sign = -1;
create index rated_records_reversals on ledger.rated_records (run_id) where sign = -1;

-- The records that count of a run together with those that it stands on: what nothing in the set has reversed.
create view ledger.effective_usage_records as
select sets.run_id as as_of_run_id, u.*
from ledger.run_sets as sets
inner join ledger.usage_records as u on u.run_id = sets.member_id
where
    u.sign = 1
    and not exists (
        select from ledger.usage_records as reversal
        inner join ledger.run_sets as reversing on reversing.member_id = reversal.run_id
        where
            reversing.run_id = sets.run_id and reversal.sign = -1
            and reversal.cloud = u.cloud and reversal.resource_type = u.resource_type
            and reversal.resource_id = u.resource_id and reversal.reverses_id = u.id
    );

create view ledger.effective_rated_records as
select sets.run_id as as_of_run_id, r.*
from ledger.run_sets as sets
inner join ledger.rated_records as r on r.run_id = sets.member_id
where
    r.sign = 1
    and not exists (
        select from ledger.rated_records as reversal
        inner join ledger.run_sets as reversing on reversing.member_id = reversal.run_id
        where
            reversing.run_id = sets.run_id and reversal.sign = -1
            and reversal.cloud = r.cloud and reversal.resource_type = r.resource_type
            and reversal.resource_id = r.resource_id and reversal.reverses_id = r.id
    );

-- Of attributions and bills, what has been taken back adds up to nothing. A bill that is written again is another row.
create view ledger.effective_attributions as
select
    sets.run_id as as_of_run_id, a.cloud, a.project_id, a.billed_cloud, a.billed_project_id, a.relation_id,
    a.relation_type, a.depth
from ledger.run_sets as sets
inner join ledger.attributions as a on a.run_id = sets.member_id
group by
    sets.run_id, a.cloud, a.project_id, a.billed_cloud, a.billed_project_id, a.relation_id, a.relation_type, a.depth
having sum(a.sign) > 0;

create view ledger.effective_bills as
select sets.run_id as as_of_run_id, b.*
from ledger.run_sets as sets
inner join ledger.bills as b on b.run_id = sets.member_id
where
    b.sign = 1
    and not exists (
        select from ledger.bills as reversal
        inner join ledger.run_sets as reversing on reversing.member_id = reversal.run_id
        where
            reversing.run_id = sets.run_id and reversal.sign = -1 and reversal.reverses_run_id = b.run_id
            and reversal.cloud = b.cloud and reversal.project_id = b.project_id
    );
