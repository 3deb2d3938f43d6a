-- What a price says beyond a price (docs/reference/prices.md), and what a rated record with such a price goes by.
alter table ledger.prices add column tier_mode text check (tier_mode in ('graduated', 'volume'));
alter table ledger.prices add column tier_group text check (tier_group in ('resource', 'project'));
alter table ledger.prices add column minimum_us bigint check (minimum_us > 0);       -- of each life within the month
alter table ledger.prices add column increment_us bigint check (increment_us > 0);   -- likewise, per one that has begun
alter table ledger.prices add column monthly_cap numeric check (monthly_cap >= 0);   -- per resource, of exact amounts
alter table ledger.prices add check ((tier_mode is null) = (tier_group is null));
alter table ledger.prices add check (formula = 'time_gauge' or (minimum_us is null and increment_us is null));

create table ledger.price_tiers (
    version text not null,
    platform text collate "C" not null,
    resource_type text collate "C" not null,
    metric text collate "C" not null,
    no smallint not null check (no > 0),
    above numeric not null check (above >= 0),       -- units of the group in the month, as the price counts them
    up_to numeric check (up_to > above),             -- included; null: without a bound
    price numeric not null check (price >= 0),
    primary key (version, platform, resource_type, metric, no),
    foreign key (version, platform, resource_type, metric)
        references ledger.prices (version, platform, resource_type, metric)
);
create trigger append_only before update or delete or truncate on ledger.price_tiers
    for each statement execute function ledger.refuse_change();

-- What the amount goes by beyond the record's own length and quantity, which other records decide: `microseconds`
-- charged, units of the group `before` it and in `total`, and what the resource has been `charged` before it. Null
-- where the price has no terms.
alter table ledger.rated_records add column basis jsonb;


-- No month has two versions, whoever writes them: one whose end is told keeps others out of its months; one without
-- gives way to the next, and keeps its first month to itself.
alter table ledger.pricing_versions add constraint one_version_a_month
    exclude using gist (daterange(valid_from, coalesce(valid_to, valid_from + 1)) with &&);
