-- Who reads a run reads one project of it most of the time. Equal entries share one key in such an index, so it is
-- hardly larger than that of the run alone, which it replaces.
create index usage_records_project on ledger.usage_records (run_id, project_id);
drop index ledger.usage_records_run;
create index rated_records_project on ledger.rated_records (run_id, project_id);
drop index ledger.rated_records_run;
