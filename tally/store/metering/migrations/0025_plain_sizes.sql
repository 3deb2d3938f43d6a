-- A size with its numbers in their shortest form. Equal sizes can be spelled differently (4 and 4.0), and the intervals
-- that they make do not split: which spelling is shown would go by how much of the history was read.
create function raw.plain(value jsonb) returns jsonb
language sql immutable parallel safe as $$
    select case jsonb_typeof(value)
        when 'number' then to_jsonb(trim_scale(value::numeric))
        when 'object' then (select jsonb_object_agg(key, raw.plain(part)) from jsonb_each(value) as parts (key, part))
        when 'array' then (select jsonb_agg(raw.plain(part) order by place)
            from jsonb_array_elements(value) with ordinality as parts (part, place))
        else value
    end
$$;

-- What is kept goes on from what was kept before: of sizes in any spelling, it is derived from nothing once.
drop table if exists metering.int_intervals_first_half, metering.int_intervals_second_half cascade;
update raw.derived set load_id = 0;
