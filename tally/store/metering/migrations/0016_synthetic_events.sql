-- What reconciliation said is little beside what collectors send, and is asked for of all resources at once: which of what
-- has arrived late could make it void.
create index events_synthetic on raw.events (cloud, resource_type, resource_id, timestamp, event_type)
where source = 'reconciliation';
