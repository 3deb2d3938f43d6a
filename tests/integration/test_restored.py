"""A metering database that was restored from a backup, or begins anew, lacks no event that another took (rule 18)."""

from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.domain.errors import Refused
from tally.services.load import bring_all_again
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.closing import SMALL_MONTH
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send


def costs(metering: Connection) -> list[tuple[Any, ...]]:
    """What each dimension of each resource comes to as of the live run."""
    return metering.execute(
        """select r.resource_id, r.dimension, sum(r.quantity), sum(r.amount), count(*)
           from ledger.rated_records as r
           inner join ledger.runs as run on run.id = r.run_id and run.status = 'completed'
           group by 1, 2 order by 1, 2"""
    ).fetchall()


@pytest.mark.parametrize("found", ["backup", "nothing"])
def test_another_metering_database_is_refused_until_it_is_to_take_all_events_over_again(
    server_url: str, reporting: Connection, metering_url: str, metering_template: str, found: str
) -> None:
    """The outbox no longer holds what the lost one took: the month would be billed too low, and nobody would know."""
    send(reporting, *SMALL_MONTH[:2])
    with connected(metering_url) as metering:
        run_month(reporting, metering, finalize=False)
    template = urlsplit(metering_url).path.removeprefix("/") if found == "backup" else metering_template
    with fresh_database(server_url, template) as other_url, connected(other_url) as other:
        send(reporting, *SMALL_MONTH[2:])
        with connected(metering_url) as metering:
            run_month(reporting, metering, finalize=False)
            expected = costs(metering)
        with pytest.raises(Refused, match=r"load 2 of 2026-\S+, the last .* tally rebuild --events$"):
            run_month(reporting, other, finalize=False)
        assert bring_all_again(reporting) == 2
        run_month(reporting, other, finalize=False)
        assert costs(other) == expected
        stored = other.execute("select count(*), count(distinct event_id) from raw.events").fetchone()
        assert stored == (len(SMALL_MONTH), len(SMALL_MONTH))
        assert other.execute("select sum(events) from raw.loads").fetchone() == (len(SMALL_MONTH),)


def test_a_backup_that_lacks_no_load_goes_on(server_url: str, reporting: Connection, metering_url: str) -> None:
    """Loads that brought nothing are not missed, nor one whose batches are still in the outbox."""
    send(reporting, *SMALL_MONTH[:2])
    with connected(metering_url) as metering:
        run_month(reporting, metering, finalize=False)
    with fresh_database(server_url, urlsplit(metering_url).path.removeprefix("/")) as backup_url:
        with connected(metering_url) as metering:
            run_month(reporting, metering, finalize=False)
        send(reporting, *SMALL_MONTH[2:])
        with connected(backup_url) as backup:
            run_month(reporting, backup, finalize=False)
            assert backup.execute("select count(*) from raw.events").fetchone() == (len(SMALL_MONTH),)
