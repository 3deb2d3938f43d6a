-- What is written by the million in one statement is held to what it refers to once per statement, in sets. Foreign keys
-- look up row by row, which took longer than writing the rows. The promises and the SQLSTATE (23503) stay the same. Those
-- who write hold the metering lock, so that what is referred to cannot go away meanwhile.

-- A load begins by writing its row, and its events in the same transaction name no other one.
alter table raw.events drop constraint events_load_id_fkey;

do $$
declare
    reference record;
begin
    for reference in
        select conrelid::regclass as big, conname from pg_constraint
        where contype = 'f' and conrelid in ('ledger.usage_records'::regclass, 'ledger.rated_records'::regclass)
    loop
        execute format('alter table %s drop constraint %I', reference.big, reference.conname);
    end loop;
end $$;

create function ledger.refuse_unknown_run() returns trigger language plpgsql as $$
declare
    unknown uuid;
begin
    select touched.run_id into unknown
    from (select distinct c.run_id from changed as c) as touched
    where not exists (select from ledger.runs as r where r.id = touched.run_id)
    limit 1;
    if found then
        raise exception '% on %.% is refused: there is no run %', tg_op, tg_table_schema, tg_table_name, unknown
            using errcode = '23503';
    end if;
    return null;
end $$;
create trigger known_run after insert on ledger.usage_records referencing new table as changed
    for each statement execute function ledger.refuse_unknown_run();
create trigger known_run after insert on ledger.rated_records referencing new table as changed
    for each statement execute function ledger.refuse_unknown_run();

create function ledger.refuse_delete_of_run_with_records() returns trigger language plpgsql as $$
begin
    if exists (select from ledger.usage_records as u where u.run_id = old.id)
        or exists (select from ledger.rated_records as r where r.run_id = old.id)
    then
        raise exception 'DELETE of run % is refused: it has records', old.id using errcode = '23503';
    end if;
    return old;
end $$;
create trigger records_of_run before delete on ledger.runs
    for each row execute function ledger.refuse_delete_of_run_with_records();

-- Planned anew each time, by EXECUTE: a month and a correction of one resource ask for other plans.
create function ledger.refuse_unknown_usage() returns trigger language plpgsql as $$
declare
    unknown uuid;
begin
    execute 'select c.usage_record_id from changed as c
        where not exists (
            select from ledger.usage_records as u
            where u.cloud = c.cloud and u.resource_type = c.resource_type and u.resource_id = c.resource_id
                and u.id = c.usage_record_id
        )
        limit 1' into unknown;
    if unknown is not null then
        raise exception '% on %.% is refused: there is no usage record %',
            tg_op, tg_table_schema, tg_table_name, unknown using errcode = '23503';
    end if;
    return null;
end $$;
create trigger known_usage after insert on ledger.rated_records referencing new table as changed
    for each statement execute function ledger.refuse_unknown_usage();

create function ledger.refuse_delete_of_rated_usage() returns trigger language plpgsql as $$
declare
    rated uuid;
begin
    execute 'select c.id from changed as c
        where exists (
            select from ledger.rated_records as r
            where r.cloud = c.cloud and r.resource_type = c.resource_type and r.resource_id = c.resource_id
                and r.usage_record_id = c.id
        )
        limit 1' into rated;
    if rated is not null then
        raise exception 'DELETE of usage record % is refused: it has costs', rated using errcode = '23503';
    end if;
    return null;
end $$;
create trigger rated_usage after delete on ledger.usage_records referencing old table as changed
    for each statement execute function ledger.refuse_delete_of_rated_usage();
