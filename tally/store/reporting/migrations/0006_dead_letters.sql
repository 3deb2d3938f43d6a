-- A dead letter gets a number, by which it is listed and named, and the format that it came in, so that what a mapper
-- could not turn into an event is replayed through the same mapper.
alter table reporting.rejected_events
    add column id bigint generated always as identity,
    add column format text not null default 'tally';

create unique index rejected_events_id on reporting.rejected_events (id);
create index rejected_events_cloud on reporting.rejected_events (cloud, id);
create index rejected_events_received on reporting.rejected_events (received_at);

-- A list of one reason goes by the number, and so does its replay.
drop index reporting.rejected_events_reason;
create index rejected_events_reason on reporting.rejected_events (reason, id);
create index rejected_events_open on reporting.rejected_events (reason, cloud, id) where replayed_at is null;
