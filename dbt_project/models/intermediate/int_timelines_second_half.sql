{{ config(unlogged=true) }}
-- The timelines of the other half of the changed resources (macros/timelines.sql).
{{ timelines(of_resources_to_derive('events'), in_half(1, 'events')) }}
