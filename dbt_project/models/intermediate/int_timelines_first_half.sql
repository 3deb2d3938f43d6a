{{ config(unlogged=true) }}
-- The timelines of one half of the changed resources (macros/timelines.sql).
{{ timelines(of_resources_to_derive('events'), in_half(0, 'events')) }}
