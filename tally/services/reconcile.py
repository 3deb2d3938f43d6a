"""Reconciliation of a cloud: list what its platform has, and write what the events do not tell (rule 9).

All types are listed and compared (listing.py) before the first event is written (synthetic.py), so that a listing that
would close too much can be stopped whole. A sync that dies leaves whole chunks; the next one finds what is left.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import psycopg

from tally.domain.drift import too_many
from tally.domain.errors import NotFound, Refused, Unavailable
from tally.domain.inventory import Adapter
from tally.services.ingest import Outcome
from tally.services.listing import Taken, take
from tally.services.synthetic import Differences
from tally.store.database import Connection
from tally.store.reporting import audit, listings, registry, syncs
from tally.store.reporting.syncs import LastListing, LastSync, ListingRow


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What a sync found and wrote, by resource type; ``errors`` are for a person, one line each.

    ``status`` is completed; incomplete if something is missing from a listing, so that nothing was closed for being
    absent from that one; or guarded if a listing would have closed too much, so that nothing was written of that one.
    """

    cloud: str
    status: str
    started_at: datetime
    finished_at: datetime
    listings: tuple[ListingRow, ...]
    errors: tuple[str, ...]

    def total(self, number: str) -> int:
        """Add up one of the numbers of ListingRow, such as ``created``."""
        return sum(getattr(listing, number) for listing in self.listings)


def sync(
    connection: Connection,
    cloud: str,
    adapter: Adapter,
    *,
    clock: Callable[[], datetime],
    clock_skew: timedelta,
    max_deleted_percent: int,
    actor: str,
    accept_deletions: bool = False,
    told: Callable[[Sequence[Outcome]], object] = lambda _: None,
) -> SyncReport:
    """Reconcile a cloud, over a connection in autocommit that nobody else uses meanwhile.

    A sync may close ``max_deleted_percent`` of the resources that are open, of each type and of all that are listed,
    or with ``accept_deletions`` any number, which is audited. ``told`` hears what became of the synthetic events, chunk
    by chunk.

    Raises:
        NotFound: if the cloud is not registered.
        Refused: if another sync of the cloud is running.
        Unavailable: if the database fails. What a platform fails to answer is in the report.
    """
    platform = registry.platforms(connection, [cloud]).get(cloud)
    if platform is None:
        raise NotFound(f"cloud {cloud[:80]!r} is not registered; register it, or send its first event")
    with _alone(connection, cloud):
        started_at = clock()
        sync_id = syncs.begin(connection, cloud, actor, started_at, accept_deletions=accept_deletions)
        with _failure_noted(connection, sync_id, cloud, clock):
            previous = {last.resource_type: last.started_at for last in syncs.last_listings(connection, cloud)}
            taken = take(connection, cloud, adapter, clock=clock, previous=previous)
            guarded = _guarded(taken, max_deleted_percent)
            if guarded and accept_deletions:
                closing = {each.resource_type: each.comparison.closing for each in guarded}
                audit.record(connection, actor, "sync.accept_deletions", cloud, {"sync": sync_id, "closing": closing})
                guarded = []
            differences = Differences(
                connection, platform, cloud, clock=clock, clock_skew=clock_skew, actor=actor, told=told
            )
            done = [_held_back(each) if each in guarded else _written(each, differences) for each in taken]
            rows = tuple(row for row, _ in done)
            errors = tuple(error for _, errors in done for error in errors)
            report = SyncReport(cloud, _status(rows), started_at, clock(), rows, errors)
            syncs.finish(connection, sync_id, cloud, report.status, report.finished_at, rows, errors)
    return report


def last_syncs(connection: Connection) -> list[LastSync]:
    """Tell of every registered cloud when it was last reconciled, and when that last went well."""
    return syncs.last_syncs(connection)


def last_listings(connection: Connection) -> list[LastListing]:
    """Tell of every cloud and resource type how many resources the last listing held that was compared whole."""
    return syncs.last_listings(connection)


@contextmanager
def _alone(connection: Connection, cloud: str) -> Iterator[None]:
    """Hold the right to reconcile a cloud; the server takes it back from a session that ends."""
    try:
        if not syncs.lock(connection, cloud):
            raise Refused(f"sync of {cloud}", ["another one is running; wait for its end"])
        try:
            yield
        finally:
            with suppress(psycopg.Error):
                listings.end(connection)
                syncs.unlock(connection, cloud)
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise Unavailable(f"the reporting database failed ({_one_line(error)}); sync again") from error


@contextmanager
def _failure_noted(
    connection: Connection, sync_id: int, cloud: str, clock: Callable[[], datetime]
) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        with suppress(psycopg.Error):  # then the next sync finds this one broken off
            syncs.finish(connection, sync_id, cloud, "failed", clock(), errors=[_one_line(error)])
        raise


def _guarded(taken: Sequence[Taken], max_percent: int) -> list[Taken]:
    """Return the listings that would close too much: all if they do so together, else each that does so by itself."""
    closing = sum(each.comparison.closing for each in taken)
    if too_many(closing, sum(each.comparison.open_before for each in taken), max_percent):
        return list(taken)
    return [each for each in taken if too_many(each.comparison.closing, each.comparison.open_before, max_percent)]


def _written(taken: Taken, differences: Differences) -> tuple[ListingRow, list[str]]:
    counts, errors = differences.write(taken)
    return _row(taken, "incomplete" if taken.gaps else "compared", counts), [*_gaps(taken), *errors]


def _held_back(taken: Taken) -> tuple[ListingRow, list[str]]:
    """Write nothing: a listing that is not trusted to say what is gone is not trusted to say what is there."""
    closing, open_before = taken.comparison.closing, taken.comparison.open_before
    why = (
        f"{taken.resource_type}: nothing is written, for the sync would close too much, here {closing} of {open_before}"
        " resources; if they are really gone, sync with accept_deletions"
    )
    return _row(taken, "guarded", {"withheld": closing}), [*_gaps(taken), why]


def _row(taken: Taken, status: str, counts: Mapping[str, int]) -> ListingRow:
    found = taken.comparison
    return ListingRow(
        taken.resource_type, taken.started_at, status, found.listed, found.unknown, found.open_before, **counts
    )


def _gaps(taken: Taken) -> list[str]:
    return [f"{taken.resource_type}: the listing is not complete: {gap}" for gap in taken.gaps]


def _status(rows: Sequence[ListingRow]) -> str:
    statuses = {row.status for row in rows}
    if "guarded" in statuses:
        return "guarded"
    return "incomplete" if "incomplete" in statuses else "completed"


def _one_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:300]
