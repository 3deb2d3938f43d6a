-- Names and tags of projects are inputs of a run: a finalized month says the same of them for ever. Each load keeps the
-- projects that differ from what is known of them.
alter table raw.projects add column metadata jsonb not null default '{}';
alter table raw.projects drop constraint projects_pkey, drop constraint projects_cloud_external_id_key;
alter table raw.projects add primary key (id, load_id), add unique (cloud, external_id, load_id);

-- The projects that a run knows, as they were at the load of the regular run of its month: a correction takes a charge
-- back under the name that it was made under. What was registered later is as it was at first.
create view ledger.run_projects as
select distinct on (run.id, project.cloud, project.external_id)
    run.id as run_id, project.id, project.platform, project.cloud, project.external_id, project.name, project.metadata
from ledger.runs as run
left join ledger.runs as regular on regular.id = run.corrects_run_id
cross join lateral (select coalesce(regular.load_id, run.load_id) as load_id) as month
inner join raw.projects as project on project.load_id <= run.load_id
order by
    run.id, project.cloud, project.external_id, project.load_id > month.load_id, abs(project.load_id - month.load_id);
