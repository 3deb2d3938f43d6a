-- A document that a target has lost is sent again: a sending of its own, which says who asked for it and why.
alter table delivery.deliveries
add column sending integer not null default 1 check (sending > 0),
add column asked_at timestamptz,
add column asked_by text,
add column reason text,
drop constraint deliveries_pkey,
add primary key (target, run_id, cloud, project_id, sign, sending),
add check (num_nonnulls(asked_at, asked_by, reason) = case when sending = 1 then 0 else 3 end);

-- One at a time: whoever works the outbox off names a document, and means the sending that is not delivered.
create unique index deliveries_under_way on delivery.deliveries (target, run_id, cloud, project_id, sign)
where delivered_at is null;
