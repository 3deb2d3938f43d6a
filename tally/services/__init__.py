"""Use cases: what the CLI, the API and the assets call. Rules come from the domain, rows from the store."""
