-- Costs are held to usage as in 0019, in two steps that the planner cannot turn around: it would look for all of them in
-- the whole history first. The second step reads nothing where the first leaves nothing over.
create or replace function ledger.refuse_costs_of_nothing() returns trigger language plpgsql as $$
declare
    run_ids uuid[] := array(select distinct c.run_id from changed as c);
    doing text := format('%s on %I.%I', tg_op, tg_table_schema, tg_table_name);
    unknown uuid;
begin
    perform ledger.hold_open(run_ids, doing);
    execute 'with of_other_runs as materialized (
            select c.cloud, c.resource_type, c.resource_id, c.usage_record_id
            from changed as c
            where not exists (
                select from ledger.usage_records as own
                where own.cloud = c.cloud and own.resource_type = c.resource_type and own.resource_id = c.resource_id
                    and own.id = c.usage_record_id and own.run_id = any($1)
            )
        )
        select (array_agg(c.usage_record_id))[1]
        from of_other_runs as c
        where not exists (
            select from ledger.usage_records as u
            where u.cloud = c.cloud and u.resource_type = c.resource_type and u.resource_id = c.resource_id
                and u.id = c.usage_record_id
        )' into unknown using run_ids;
    if unknown is not null then
        raise exception '% is refused: there is no usage record %', doing, unknown using errcode = '23503';
    end if;
    return null;
end $$;
