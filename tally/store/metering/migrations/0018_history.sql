-- A month is read without reading the history. Events are appended load by load, each about a month: what a range of
-- pages holds of loads and instants, tells whether any of it is asked for. It is small, and nearly free to keep.
create index events_arrival on raw.events using brin (load_id, timestamp);
drop index raw.events_load;

-- The timelines of the two halves are held where they are derived.
drop table if exists metering.int_timelines_first_half, metering.int_timelines_second_half;
