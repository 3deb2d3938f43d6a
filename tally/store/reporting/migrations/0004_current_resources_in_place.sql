-- Nearly every event rewrites a row of current_resources. PostgreSQL does so in place (HOT), touching no index, if the
-- page has room and no indexed column changes. The state changes with every second event: so no index holds it.
drop index reporting.current_resources_type;
create index current_resources_type on reporting.current_resources (resource_type, cloud, resource_id);

-- The payload of the last event stands in events, whose primary key is (cloud, resource_type, resource_id,
-- last_event_at, last_event_id): a copy made every row half as large again, and was parsed twice.
alter table reporting.current_resources drop column last_payload;
