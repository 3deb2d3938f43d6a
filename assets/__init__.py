"""The Dagster assets and asset checks: thin. Each reads, calls a service or dbt, and returns metadata.

Decisions belong in tally.services, SQL in tally.store and dbt_project, handles in resources/.
"""
