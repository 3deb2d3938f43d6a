-- The last value that is known, as an aggregate over a resource's events in their order: what does not say a value leaves
-- it as it was. Strict: PostgreSQL passes over nulls, and begins with the first value that is none.
create function raw.known_later(known anyelement, later anyelement) returns anyelement
language sql immutable strict parallel safe as $$ select later $$;

create aggregate raw.last_known(value anyelement) ( -- noqa: LT01
    sfunc = raw.known_later,
    stype = anyelement,
    parallel = safe
);
