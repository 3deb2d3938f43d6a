-- Which synthetic events the collector's own events void (rule 9), as an aggregate over a resource's events read
-- backwards. The state says what follows: bit 1, a collector's create before any delete; bit 2, a collector's
-- update, usage or delete before any create. A void event leaves the state as it is: it counts as absent.
create function raw.look_back(following integer, effect text, synthetic boolean) returns integer
language sql immutable parallel safe as $$
    select case
        when effect = 'create' and synthetic and following & 1 = 1 then following
        when effect = 'create' then case when synthetic then 0 else 1 end
        when effect = 'delete' and synthetic and following & 2 = 2 then following
        when effect = 'delete' then case when synthetic then 0 else 2 end
        when synthetic then following
        else following | 2
    end
$$;

create aggregate raw.following(effect text, synthetic boolean) ( -- noqa: LT01
    sfunc = raw.look_back,
    stype = integer,
    initcond = '0',
    parallel = safe
);

-- How far the timelines have been derived: written in the transaction that derives them.
create table raw.derived (
    only_row boolean primary key default true check (only_row),
    load_id bigint not null,
    registry_version integer not null
);
insert into raw.derived (load_id, registry_version) values (0, 0);
