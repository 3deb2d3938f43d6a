-- A sending that was asked for again can be ended: it is neither delivered nor tried any more, and says who ended it, why.
-- The first sending cannot: every document is delivered, or seen as not delivered.
alter table delivery.deliveries
add column withdrawn_at timestamptz,
add column withdrawn_by text,
add column withdrawal_reason text,
add check (num_nonnulls(withdrawn_at, withdrawn_by, withdrawal_reason) in (0, 3)),
add check (withdrawn_at is null or (sending > 1 and delivered_at is null));

drop index delivery.deliveries_in_order;
create index deliveries_in_order on delivery.deliveries (target, load_id, sign, cloud, project_id)
where delivered_at is null and withdrawn_at is null;

drop index delivery.deliveries_of_project;
create index deliveries_of_project on delivery.deliveries (target, cloud, project_id, period)
where delivered_at is null and withdrawn_at is null;

drop index delivery.deliveries_under_way;
create unique index deliveries_under_way on delivery.deliveries (target, run_id, cloud, project_id, sign)
where delivered_at is null and withdrawn_at is null;

drop trigger delivered on delivery.deliveries;
create trigger ended before update or delete on delivery.deliveries
for each row when (old.delivered_at is not null or old.withdrawn_at is not null)
execute function ledger.refuse_change();
