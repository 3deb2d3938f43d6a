-- The outbox of documents: what each target gets of what is finalized, once. It is derived from the ledger.
create schema delivery;

-- The runs whose documents a target gets. A run is entered together with all of them, and they never change.
create table delivery.enqueued_runs (
    target text collate "C" not null,
    run_id uuid not null references ledger.runs (id),
    enqueued_at timestamptz not null,
    primary key (target, run_id)
);

create table delivery.deliveries (
    target text collate "C" not null,
    run_id uuid not null references ledger.runs (id),
    cloud text collate "C" not null,
    project_id text collate "C" not null,
    sign smallint not null check (sign in (1, -1)),  -- that of the bill
    period text not null,
    load_id bigint not null,             -- of the run: the order of the runs of a period
    refers_to_run_id uuid,               -- the run whose bill it takes back or replaces
    attempts integer not null default 0, -- counted as they begin
    attempted_at timestamptz,
    next_attempt_at timestamptz not null,
    last_error text,
    delivered_at timestamptz,
    receipt text,                        -- what the target made of it
    primary key (target, run_id, cloud, project_id, sign),
    foreign key (target, run_id) references delivery.enqueued_runs (target, run_id),
    check ((delivered_at is null) = (receipt is null))
);
create index deliveries_in_order on delivery.deliveries (target, load_id, sign, cloud, project_id)
    where delivered_at is null;
create index deliveries_of_project on delivery.deliveries (target, cloud, project_id, period)
    where delivered_at is null;

-- Once it is delivered it stays so: nothing is sent twice because a row was touched.
create trigger delivered before update or delete on delivery.deliveries
    for each row when (old.delivered_at is not null) execute function ledger.refuse_change();
