"""Configured handles for the Dagster assets: databases, the metering lock, dbt, Great Expectations, the clock.

What is done with them belongs in assets/ and tally.services. Nothing here prints a URL: they hold passwords.
"""
