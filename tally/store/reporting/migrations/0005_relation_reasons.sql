-- Why a version of a relation was written: it must be said where the version touches a finalized period.
alter table reporting.project_relations add column reason text;

-- A relation that ends where it begins is annulled: it never counts, and what was said stays readable.
alter table reporting.project_relations drop constraint project_relations_check;
alter table reporting.project_relations add constraint project_relations_validity check (valid_to >= valid_from);
