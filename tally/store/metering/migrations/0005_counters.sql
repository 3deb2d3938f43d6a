-- Which metrics of a record's usage are counters: they are summed, the others are weighed by time.
alter table ledger.usage_records add column counters text[] not null default '{}';
