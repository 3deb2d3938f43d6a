"""What is kept of the timelines, and how far they have been derived; by what: dbt_project/models/intermediate."""

from tally.store.database import Connection

# The tables that a run goes on from (docs/adr/0025-timelines-go-on.md).
KEPT = ("int_void_events", "int_intervals_first_half", "int_intervals_second_half", "int_lifetimes", "int_proved_lives")


def derived_by(metering: Connection) -> str:
    """The hash of the SQL that has derived what is kept."""
    row = metering.execute("select derived_by from raw.derived").fetchone()
    assert row is not None
    return str(row[0])


def forget_derived(metering: Connection, sql: str = "") -> None:
    """Keep nothing of the timelines, as before the first run: the next one derives all, by the SQL of that hash."""
    with metering.transaction():
        metering.execute("update raw.derived set load_id = 0, registry_version = 0, derived_by = %s", [sql])
        for table in KEPT:
            metering.execute(f"drop table if exists metering.{table} cascade".encode())
