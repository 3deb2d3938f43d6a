-- Findings are judged by a policy: what they are is written first, what becomes of them as the run is completed, and
-- again as it is finalized. Until then they block, so that what was never judged stands in the way.
alter table ledger.findings alter column blocking set default true;
alter table ledger.findings add column ignored boolean not null default false;       -- the policy wants to hear nothing
alter table ledger.findings add column count bigint not null default 1 check (count > 0); -- things that stand behind it
alter table ledger.findings add column at_risk numeric(18, 2);    -- money, in the currency of the run; null: not known
alter table ledger.findings add check (not (blocking and ignored));

-- So they may change until their run is finalized. An update is held to the runs that it leaves and that it reaches.
drop trigger never_updated on ledger.findings;
create trigger finalized_update_from after update on ledger.findings referencing old table as changed
    for each statement execute function ledger.refuse_change_of_finalized();
create trigger finalized_update_to after update on ledger.findings referencing new table as changed
    for each statement execute function ledger.refuse_change_of_finalized();

-- A waiver may be for one cloud, and may end; then another one can follow.
alter table ledger.waivers add column id bigint generated always as identity;
alter table ledger.waivers add column cloud text collate "C" not null default '';    -- '' is every cloud
alter table ledger.waivers add column until timestamptz;                             -- exclusive; null: for ever
alter table ledger.waivers drop constraint waivers_pkey;
alter table ledger.waivers add primary key (id);
create index waivers_period on ledger.waivers (period, id);

-- The waivers by which a run was finalized.
create table ledger.run_waivers (
    run_id uuid not null references ledger.runs (id),
    waiver_id bigint not null references ledger.waivers (id),
    primary key (run_id, waiver_id)
);
create trigger append_only before update or delete or truncate on ledger.run_waivers
    for each statement execute function ledger.refuse_change();
create trigger finalized_insert after insert on ledger.run_waivers referencing new table as changed
    for each statement execute function ledger.refuse_change_of_finalized();
