-- The usage records of a resource cover its lives within the period to the microsecond, and no resource is missing
-- or surplus. The lives are derived from the raw events by another way than the timelines: what is void by walking
-- each history from its end, the lives as ranges from a create to the next delete.
-- Remedy: compare the events of the resource with its intervals; derive the timelines again with `dbt run --full-refresh`, then close again.
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
