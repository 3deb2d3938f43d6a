-- Finalized records refuse UPDATE, DELETE, TRUNCATE and late INSERT for every role, the owner included (rule 19).
-- Triggers only raise, and read their own rows and the small table of runs.

create function ledger.refuse_change() returns trigger language plpgsql as $$
begin
    raise exception '% on %.% is refused: its rows never change',
        tg_op, tg_table_schema, tg_table_name using errcode = 'TA001';
end $$;

create function ledger.refuse_change_of_finalized() returns trigger language plpgsql as $$
declare
    finalized uuid;
begin
    select r.id into finalized
    from (select distinct c.run_id from changed as c) as touched
    inner join ledger.runs as r on r.id = touched.run_id
    where r.status = 'finalized'
    limit 1;
    if found then
        raise exception '% on %.% is refused: run % is finalized; what arrives late becomes a correction',
            tg_op, tg_table_schema, tg_table_name, finalized using errcode = 'TA002';
    end if;
    return null;
end $$;

create function ledger.refuse_truncate_if_finalized() returns trigger language plpgsql as $$
begin
    if exists (select from ledger.runs where status = 'finalized') then
        raise exception 'TRUNCATE of %.% is refused: it holds finalized records',
            tg_table_schema, tg_table_name using errcode = 'TA002';
    end if;
    return null;
end $$;

do $$
declare
    t text;
begin
    foreach t in array array['usage_records', 'rated_records', 'attributions', 'bills', 'findings', 'checks'] loop
        execute format('create trigger never_updated before update on ledger.%I
            for each statement execute function ledger.refuse_change()', t);
        execute format('create trigger finalized_insert after insert on ledger.%I referencing new table as changed
            for each statement execute function ledger.refuse_change_of_finalized()', t);
        execute format('create trigger finalized_delete after delete on ledger.%I referencing old table as changed
            for each statement execute function ledger.refuse_change_of_finalized()', t);
        execute format('create trigger finalized_truncate before truncate on ledger.%I
            for each statement execute function ledger.refuse_truncate_if_finalized()', t);
    end loop;
    foreach t in array array['pricing_versions', 'prices', 'price_modifiers', 'unpriced', 'waivers'] loop
        execute format('create trigger append_only before update or delete or truncate on ledger.%I
            for each statement execute function ledger.refuse_change()', t);
    end loop;
end $$;

create function ledger.refuse_change_of_finalized_run() returns trigger language plpgsql as $$
begin
    if old.status = 'finalized' then
        raise exception '% of run % is refused: it is finalized', tg_op, old.id using errcode = 'TA002';
    end if;
    if tg_op = 'DELETE' then
        return old;
    end if;
    return new;
end $$;
create trigger finalized_run before update or delete on ledger.runs
    for each row execute function ledger.refuse_change_of_finalized_run();
create trigger finalized_truncate before truncate on ledger.runs
    for each statement execute function ledger.refuse_truncate_if_finalized();
