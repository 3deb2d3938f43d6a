"""SQL and migrations of the reporting database: events, registry, projects, projection, dead letters, audit log."""
