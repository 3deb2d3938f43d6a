-- What it costs to write records by the million: fewer indexes, and one trigger that holds them to what they refer to.

-- Hardly a record is a reversal: the others need no place in the index that lets a record be reversed only once.
alter table ledger.usage_records drop constraint usage_records_cloud_resource_type_resource_id_reverses_id_key;
create unique index usage_records_reversed_once
    on ledger.usage_records (cloud, resource_type, resource_id, reverses_id) where reverses_id is not null;
alter table ledger.rated_records drop constraint rated_records_cloud_resource_type_resource_id_reverses_id_key;
create unique index rated_records_reversed_once
    on ledger.rated_records (cloud, resource_type, resource_id, reverses_id) where reverses_id is not null;

-- Runs that records are added to are there and not finalized, and cannot become so before these are committed.
create function ledger.hold_open(run_ids uuid[], doing text) returns void language plpgsql as $$
declare
    held uuid[];
    finalized uuid;
begin
    with held as (
        select r.id, r.status from ledger.runs as r where r.id = any(run_ids) order by r.id for share
    )
    select array_agg(h.id), (array_agg(h.id) filter (where h.status = 'finalized'))[1] into held, finalized
    from held as h;
    if finalized is not null then
        raise exception '% is refused: run % is finalized; what arrives late becomes a correction', doing, finalized
            using errcode = 'TA002';
    end if;
    if not run_ids <@ coalesce(held, '{}') then
        raise exception '% is refused: there is no run %',
            doing, (select r.id from unnest(run_ids) as r (id) where r.id <> all(coalesce(held, '{}')) limit 1)
            using errcode = '23503';
    end if;
end $$;

create function ledger.hold_open_runs_of_records() returns trigger language plpgsql as $$
begin
    perform ledger.hold_open(
        array(select distinct c.run_id from changed as c), format('%s on %I.%I', tg_op, tg_table_schema, tg_table_name)
    );
    return null;
end $$;

-- Costs go by usage of their own run but for some of a correction, so that what a run writes is looked up in what it
-- has written, however long the history. Planned anew each time, by EXECUTE: a month and a correction of one resource
-- ask for other plans. All of it is counted, and not the first one looked for: for a single row the planner would look
-- up row by row.
create function ledger.refuse_costs_of_nothing() returns trigger language plpgsql as $$
declare
    run_ids uuid[] := array(select distinct c.run_id from changed as c);
    doing text := format('%s on %I.%I', tg_op, tg_table_schema, tg_table_name);
    unknown uuid;
begin
    perform ledger.hold_open(run_ids, doing);
    execute 'select (array_agg(c.usage_record_id))[1]
        from changed as c
        left join ledger.usage_records as own
            on own.cloud = c.cloud and own.resource_type = c.resource_type and own.resource_id = c.resource_id
                and own.id = c.usage_record_id and own.run_id = any($1)
        where own.id is null and not exists (
            select from ledger.usage_records as u
            where u.cloud = c.cloud and u.resource_type = c.resource_type and u.resource_id = c.resource_id
                and u.id = c.usage_record_id
        )' into unknown using run_ids;
    if unknown is not null then
        raise exception '% is refused: there is no usage record %', doing, unknown using errcode = '23503';
    end if;
    return null;
end $$;

drop trigger finalized_insert on ledger.usage_records;
drop trigger known_run on ledger.usage_records;
create trigger held_open after insert on ledger.usage_records referencing new table as changed
    for each statement execute function ledger.hold_open_runs_of_records();

drop trigger finalized_insert on ledger.rated_records;
drop trigger known_run on ledger.rated_records;
drop trigger known_usage on ledger.rated_records;
create trigger held_open after insert on ledger.rated_records referencing new table as changed
    for each statement execute function ledger.refuse_costs_of_nothing();

drop function ledger.refuse_unknown_run;
drop function ledger.refuse_unknown_usage;
