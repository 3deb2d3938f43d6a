-- Where the server has loaded TimescaleDB, events is a hypertable with the layout that was measured best (DESIGN.md
-- section 3): monthly chunks, segmented by cloud and type, ordered as the timeline reads them.
-- Applied as well with the text of 45e11bd3b985ec2e20bc8e85ab39fea677ffab81ae2c8c5a2d2e1d64adbb90b4, which asked for
-- TimescaleDB in full wherever it is installed, and failed where it is not loaded, or is the Apache edition.
do $$
begin
    -- A setting of the loader: what is installed need not be loaded.
    if not exists (select from pg_available_extensions where name = 'timescaledb')
        or current_setting('timescaledb.disable_load', true) is null then
        return;
    end if;
    create extension if not exists timescaledb;
    perform create_hypertable('reporting.events', 'timestamp',
        chunk_time_interval => interval '1 month', create_default_indexes => false);
    -- The Apache edition, such as that of Debian, does not compress.
    if current_setting('timescaledb.license') <> 'timescale' then
        return;
    end if;
    alter table reporting.events set (
        timescaledb.compress,
        timescaledb.compress_segmentby = 'cloud, resource_type',
        timescaledb.compress_orderby = 'resource_id, timestamp, event_id');
    perform add_compression_policy('reporting.events', interval '45 days');
end $$;
