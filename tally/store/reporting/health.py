"""SQL that asks the reporting database how it is."""

from tally.store.database import Connection


def takes_writes(connection: Connection) -> bool:
    """Whether the server takes writes: a standby does not, nor one whose administrator made it read-only."""
    row = connection.execute("select not pg_is_in_recovery() and not current_setting('transaction_read_only')::bool")
    return row.fetchone() == (True,)
