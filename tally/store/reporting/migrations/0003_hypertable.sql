-- Where the server offers TimescaleDB, events is a hypertable with the layout that was measured best (DESIGN.md
-- section 3): monthly chunks, segmented by cloud and type, ordered as the timeline reads them.
do $$
begin
    if not exists (select from pg_available_extensions where name = 'timescaledb') then
        return;
    end if;
    create extension if not exists timescaledb;
    perform create_hypertable('reporting.events', 'timestamp',
        chunk_time_interval => interval '1 month', create_default_indexes => false);
    alter table reporting.events set (
        timescaledb.compress,
        timescaledb.compress_segmentby = 'cloud, resource_type',
        timescaledb.compress_orderby = 'resource_id, timestamp, event_id');
    perform add_compression_policy('reporting.events', interval '45 days');
end $$;
