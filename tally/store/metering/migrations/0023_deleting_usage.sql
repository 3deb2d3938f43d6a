-- What a run wrote goes when another takes its place, or when it fails. As of costs that are written (0019), all of it is
-- counted: for a single row the planner would look up row by row.
create or replace function ledger.refuse_delete_of_rated_usage() returns trigger language plpgsql as $$
declare
    rated uuid;
begin
    execute 'select (array_agg(c.id))[1] from changed as c
        where exists (
            select from ledger.rated_records as r
            where r.cloud = c.cloud and r.resource_type = c.resource_type and r.resource_id = c.resource_id
                and r.usage_record_id = c.id
        )' into rated;
    if rated is not null then
        raise exception 'DELETE of usage record % is refused: it has costs', rated using errcode = '23503';
    end if;
    return null;
end $$;
