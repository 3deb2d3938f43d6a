-- An empty list or object within a size stays what it is: made plain it became null, and the timeline another size than the
-- inventory has.
create or replace function raw.plain(value jsonb) returns jsonb
language sql immutable parallel safe as $$
    select case jsonb_typeof(value)
        when 'number' then to_jsonb(trim_scale(value::numeric))
        when 'object' then coalesce(
            (select jsonb_object_agg(key, raw.plain(part)) from jsonb_each(value) as parts (key, part)), value
        )
        when 'array' then coalesce(
            (select jsonb_agg(raw.plain(part) order by place)
            from jsonb_array_elements(value) with ordinality as parts (part, place)), value
        )
        else value
    end
$$;

-- Timelines go on from what is kept of them, which may hold such sizes: they are derived from nothing once.
update raw.derived set load_id = 0;
