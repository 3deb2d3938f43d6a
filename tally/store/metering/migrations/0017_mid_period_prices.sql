-- A price version that begins inside a month splits the rating of that month at its beginning, not the usage records
-- (docs/adr/0023-prices-that-change-inside-a-month.md).

-- Months, or days of a version that splits: in the zone of the installation.
alter table ledger.pricing_versions add column mid_period text not null default 'period_start'
    check (mid_period in ('period_start', 'split'));
alter table ledger.pricing_versions drop constraint pricing_versions_valid_from_check;
alter table ledger.pricing_versions drop constraint pricing_versions_check;
alter table ledger.pricing_versions add check (valid_to > valid_from);
alter table ledger.pricing_versions add check (
    mid_period = 'split'
    or (extract(day from valid_from) = 1 and (valid_to is null or extract(day from valid_to) = 1))
);

-- What a run rates by after its pricing_version, which holds at the start of the month: a list of objects with a
-- version, its hash and the instant since which it holds, in the order of time.
alter table ledger.runs add column price_changes jsonb not null default '[]';

-- The versions of a run, each with the part of the month that it prices, half-open.
create view ledger.run_prices as
select
    run.id as run_id, part.pricing_version, part.from_ts,
    lead(part.from_ts, 1, run.period_to) over (partition by run.id order by part.from_ts) as to_ts
from ledger.runs as run
cross join lateral (
    select run.pricing_version, run.period_from as from_ts
    where run.pricing_version is not null
    union all
    select change ->> 'version', (change ->> 'since')::timestamptz
    from jsonb_array_elements(run.price_changes) as change
) as part;

-- The part of its usage record that a rated record pays for, half-open: where a price changes within the record, each
-- dimension of it has a rated record for each part. Null: all of the usage record.
alter table ledger.rated_records add column from_ts timestamptz;
alter table ledger.rated_records add column to_ts timestamptz;
create or replace view ledger.effective_rated_records as
select sets.run_id as as_of_run_id, r.*
from ledger.run_sets as sets
inner join ledger.rated_records as r on r.run_id = sets.member_id
where
    r.sign = 1
    and not exists (
        select from ledger.rated_records as reversal
        inner join ledger.run_sets as reversing on reversing.member_id = reversal.run_id
        where
            reversing.run_id = sets.run_id and reversal.sign = -1
            and reversal.cloud = r.cloud and reversal.resource_type = r.resource_type
            and reversal.resource_id = r.resource_id and reversal.reverses_id = r.id
    );
