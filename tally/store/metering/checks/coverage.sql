-- The usage records of a resource cover its lives within the period to the microsecond, and no resource is missing
-- or surplus. The lives are derived from the raw events by another way than the timelines (int_proved_lives), again
-- whenever a resource has new ones; that none was passed over, the number of events tells.
-- Remedy: compare the events of the resource with its intervals; derive the timelines again with `tally rebuild --timelines`, then close again.
with run as (
    select * from ledger.runs where id = :run_id
),

clipped as (
    select
        lives.cloud, lives.resource_type, lives.resource_id,
        lives.lived * tstzmultirange(tstzrange(run.period_from, run.metered_to)) as covered
    from metering.int_proved_lives as lives
    cross join run
    /* of_metered_resources(lives) */
),

expected as (
    select
        cloud, resource_type, resource_id, covered,
        (select sum(extract(epoch from upper(life) - lower(life)) * 1000000) from unnest(covered) as life) as length_us
    from clipped
    where not isempty(covered)
),

recorded as (
    select
        cloud, resource_type, resource_id,
        range_agg(tstzrange(from_ts, to_ts)) as covered,
        sum(length_us) as length_us
    from metering.int_usage_records
    where run_id = :run_id
    group by cloud, resource_type, resource_id
),

-- Counted one by one only if the sums differ.
passed_over as (
    select
        events.cloud, events.resource_type, events.resource_id,
        count(*) as events, coalesce(min(lives.events), 0) as proved
    from raw.events
    inner join run on events.load_id <= run.load_id
    left join metering.int_proved_lives as lives
        on
            lives.cloud = events.cloud and lives.resource_type = events.resource_type
            and lives.resource_id = events.resource_id
    where
        (select sum(events) from metering.int_proved_lives)
        is distinct from (
            select nullif(sum(loads.events), 0)
            from raw.loads
            inner join run as of_run on loads.load_id <= of_run.load_id
        )
    group by events.cloud, events.resource_type, events.resource_id
)

select
    cloud, resource_type, resource_id as subject,
    'lived ' || coalesce(trunc(expected.length_us), 0) || ' us in ' || coalesce(expected.covered::text, 'no instant')
    || ', but the records say ' || coalesce(recorded.length_us, 0) || ' us in '
    || coalesce(recorded.covered::text, 'no instant')
    as detail
from expected
full join recorded using (cloud, resource_type, resource_id)
where
    expected.covered is distinct from recorded.covered
    or expected.length_us is distinct from recorded.length_us
union all
select
    cloud, resource_type, resource_id as subject,
    'has ' || events || ' events, but its lives were derived from ' || proved as detail
from passed_over
where events <> proved
