"""Whether the two ways in which events come are open: ingestion, and reconciliation, which finds what that missed."""

from collections.abc import Collection

from tally.store.database import Connection
from tally.store.reporting import health, syncs

_FAILED = frozenset({"failed", "broken_off"})


def ingestion_fault(connection: Connection) -> str | None:
    """Say why events cannot be stored, or None."""
    return None if health.takes_writes(connection) else "the reporting database takes no writes"


def reconciliation_fault(connection: Connection, platforms: Collection[str]) -> str | None:
    """Say why no cloud can be reconciled, or None; ``platforms`` are those with an adapter.

    One cloud whose last sync did not fail is enough; one that was never reconciled counts as such.
    """
    statuses = [sync.status for sync in syncs.last_syncs(connection) if sync.platform in platforms]
    if not statuses:
        return "no cloud has an adapter"
    return "the last sync of every cloud failed" if _FAILED.issuperset(statuses) else None
