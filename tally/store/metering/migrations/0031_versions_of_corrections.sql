-- The mart names all price versions of a correction. It is derived: the next run makes it anew, of all live runs.
drop table if exists marts.project_corrections;
