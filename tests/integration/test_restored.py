"""Of two databases of which one was restored from a backup, or begins anew, none goes on without the other's events."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.domain.errors import Refused
from tally.services.handover import BroughtTogether, bring_together
from tally.services.ingest import Ingest
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.closing import SMALL, SMALL_MONTH, instance
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send

FIRST, LATER = SMALL_MONTH[:2], SMALL_MONTH[2:]
# What reconciliation concluded; no collector could bring it back.
CONCLUDED = instance("r-1", "03-07T00:00:00", "create.end", "i-3", size=SMALL) | {
    "event_type": "reconcile.create",
    "source": "reconciliation",
}

# What it concludes over a backup that knows of neither: the life of i-2, the end of i-1.
MEANWHILE = (
    CONCLUDED | {"event_id": "r-2", "timestamp": "2026-03-28T00:00:00Z", "resource_id": "i-2", "project_id": "p-2"},
    CONCLUDED | {"event_id": "r-3", "timestamp": "2026-03-28T00:00:00Z", "resource_id": "i-1", "payload": {},
                 "event_type": "reconcile.delete"},
)  # fmt: skip


def costs(metering: Connection) -> list[tuple[Any, ...]]:
    """What each dimension of each resource comes to as of the live run."""
    return metering.execute(
        """select r.resource_id, r.dimension, sum(r.quantity), sum(r.amount), count(*)
           from ledger.rated_records as r
           inner join ledger.runs as run on run.id = r.run_id and run.status = 'completed'
           group by 1, 2 order by 1, 2"""
    ).fetchall()


def metered(reporting: Connection, metering_url: str) -> list[tuple[Any, ...]]:
    """Run the month, every check included; what it comes to."""
    with connected(metering_url) as metering:
        run_month(reporting, metering, finalize=False)
        events = metering.execute("select count(*), count(distinct (cloud, event_id)) from raw.events").fetchone()
        loaded = metering.execute("select sum(events) from raw.loads").fetchone()
        assert events == (*loaded, *loaded) if loaded else ()
        return costs(metering)


def together(reporting: Connection, metering_url: str) -> BroughtTogether:
    """As `tally rebuild --events` brings them."""
    door = Ingest(reporting, clock=lambda: NOW, clock_skew=timedelta(0), actor="test")
    with connected(metering_url) as metering:
        return bring_together(reporting, metering, door)


@contextmanager
def backup(server_url: str, url: str) -> Iterator[str]:
    """A copy of a database as it is now; nobody may be connected to it."""
    with fresh_database(server_url, urlsplit(url).path.removeprefix("/")) as copy_url:
        yield copy_url


@pytest.mark.parametrize("found", ["backup", "nothing"])
def test_a_metering_database_that_lacks_a_load_is_refused_until_it_takes_all_events_over_again(
    server_url: str, reporting: Connection, metering_url: str, metering_template: str, found: str
) -> None:
    """The outbox no longer holds what the lost one took: the month would be billed too low, and nobody would know."""
    send(reporting, *FIRST)
    metered(reporting, metering_url)
    template = metering_url if found == "backup" else f"/{metering_template}"
    with backup(server_url, template) as other_url:
        send(reporting, *LATER)
        expected = metered(reporting, metering_url)
        with pytest.raises(Refused, match=r"load 2 of 2026-\S+, the last .* tally rebuild --events$"):
            metered(reporting, other_url)
        assert together(reporting, other_url) == BroughtTogether(batches=2, accepted=0, rejected=0)
        assert metered(reporting, other_url) == expected


def test_a_backup_of_the_metering_database_that_lacks_no_load_goes_on(
    server_url: str, reporting: Connection, metering_url: str
) -> None:
    """Loads that brought nothing are not missed, nor those whose batches are still in the outbox."""
    send(reporting, *FIRST)
    metered(reporting, metering_url)
    with backup(server_url, metering_url) as backup_url:
        metered(reporting, metering_url)
        send(reporting, *LATER)
        assert len({resource for resource, *_ in metered(reporting, backup_url)}) == 2


def test_a_reporting_database_that_lacks_events_is_refused_until_it_has_them_again(
    server_url: str, reporting_url: str, metering_url: str
) -> None:
    """Those that were handed on are in the metering database, conclusions of reconciliation included.

    What reconciliation goes on to conclude over the backup gives way to what comes back.
    """
    with connected(reporting_url) as reporting:
        send(reporting, *FIRST)
        metered(reporting, metering_url)
    with backup(server_url, reporting_url) as backup_url:
        with connected(reporting_url) as reporting:
            send(reporting, *LATER, CONCLUDED)
            expected = metered(reporting, metering_url)
        with connected(backup_url) as restored:
            with pytest.raises(Refused, match=r"event \S+ of os-prod-eu1, which .* tally rebuild --events$"):
                metered(restored, metering_url)
            send(restored, *MEANWHILE)
            assert together(restored, metering_url) == BroughtTogether(0, len(LATER) + 1, 0)
            assert metered(restored, metering_url) == expected
            assert together(restored, metering_url) == BroughtTogether(0, 0, 0)


def test_a_load_that_died_before_its_batches_left_the_outbox_is_no_restored_database(
    reporting: Connection, metering_url: str
) -> None:
    """The metering database is ahead of what the other remembers, and nothing is lacking."""
    send(reporting, *SMALL_MONTH)
    batches = reporting.execute("select batch_id from reporting.pending_batches").fetchall()
    expected = metered(reporting, metering_url)
    reporting.cursor().executemany("insert into reporting.pending_batches values (%s)", batches)
    reporting.execute("delete from reporting.last_load")
    assert metered(reporting, metering_url) == expected
