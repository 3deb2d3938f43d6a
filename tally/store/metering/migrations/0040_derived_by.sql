-- By which SQL what is kept of the timelines was derived, as a hash: what other SQL has derived may hold what it got wrong, or
-- have other columns and indexes. '' is that of no version, so that all of it is derived from nothing once.
alter table raw.derived add column derived_by text not null default '';
