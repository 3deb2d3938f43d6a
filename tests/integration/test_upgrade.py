"""What an earlier version has finalized stays as it was, is proved, and is corrected by this one (rules 19 to 21).

The database of that version is metering_at_0016.pgdump, which says how it was made.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest

from tally.services.timelines import go_on_by
from tally.services.verify import Difference, verify
from tally.store.database import Connection, connected
from tally.store.migrate import migrate, migrations
from tally_dagster.replay import replay
from tests.conftest import fresh_database
from tests.integration.closing import LARGE, SMALL, instance
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send

pytestmark = pytest.mark.slow

LAST = "0016_synthetic_events"  # migration of that version
DUMP = Path(__file__).with_name("metering_at_0016.pgdump")
SHOP, GONE = {"project_id": "shop"}, {"project_id": "gone"}
EVENTS = (
    instance("e-1", "02-10T08:00:00", "create.end", size=SMALL | {"ram_gb": 4.0}, **SHOP),
    instance("e-2", "03-11T16:00:00.000001", "finish_resize.end", size=LARGE, **SHOP),
    instance("e-3", "03-20T10:30:00", "power_off.end", **SHOP),
    instance("e-4", "03-05T00:00:00", "create.end", "i-2", size=SMALL, **GONE),
    instance("e-5", "03-02T12:00:00", "", "v\\1", size={"size_gb": 100, "type": "ssd"}, project_id="tenant")
    | {"resource_type": "volume", "event_type": "volume.create.end"},
    instance("r-1", "03-07T00:00:00", "", "i-3", size=SMALL, **GONE, source="reconciliation")
    | {"event_type": "reconcile.create"},
    instance("e-6", "03-08T00:00:00", "create.end", "i-3", size=SMALL, **GONE),
    instance("e-7", "03-15T12:00:00", "delete.end", "i-2", **GONE),
)


@contextmanager
def earlier(server_url: str) -> Iterator[tuple[str, Connection]]:
    """URL of the metering database of that version, and a connection to it."""
    with fresh_database(server_url) as url, connected(url) as metering:
        metering.execute(
            "create table public.tally_migrations"
            " (name text primary key, checksum text not null, applied_at timestamptz not null default now())"
        )
        for migration in migrations("metering"):
            if migration.name <= LAST:
                metering.execute(migration.sql.encode())
                applied = (migration.name, migration.checksum)
                metering.execute("insert into public.tally_migrations values (%s, %s)", applied)
        metering.execute("set session_replication_role = replica")
        metering.execute(DUMP.read_bytes())
        metering.execute("set session_replication_role = origin")
        yield url, metering


def found(url: str, metering: Connection) -> tuple[Difference, ...]:
    """What `tally verify 2026-03` finds."""
    return verify(metering, "2026-03", partial(replay, url)).differences


def documents(metering: Connection) -> list[tuple[object, ...]]:
    """The bills of finalized runs, byte for byte."""
    return metering.execute(
        """select run_id, cloud, project_id, sign, document from ledger.bills
           where run_id in (select id from ledger.runs where status = 'finalized') order by 1, 2, 3, 4"""
    ).fetchall()


def totals(metering: Connection, period: str) -> dict[str, str]:
    """What each project is billed for a month, corrections included."""
    rows = metering.execute(
        """select bills.project_id, sum(bills.total)::text
           from ledger.bills as bills inner join ledger.runs as runs on runs.id = bills.run_id
           where runs.period = %s group by 1""",
        [period],
    )
    return dict(rows.fetchall())


@pytest.mark.usefixtures("tally_home")
def test_what_an_earlier_version_finalized_stays_is_proved_and_corrected(
    server_url: str, reporting: Connection
) -> None:
    """Migrated with its records; what is late corrects it to the cent, and the month that was open is closed again.

    An m1.large that is off costs 0.10 an hour, 100 GB of ssd 0.01, and 15 % are taken off: 48 hours less are 4.08, and
    of April 7.20 for the volume are left, 6.12.
    """
    with earlier(server_url) as (url, metering):
        before = documents(metering)
        assert LAST not in migrate(metering, "metering")
        assert documents(metering) == before
        assert found(url, metering) == ()
        assert totals(metering, "2026-03") == {"shop": "87.15", "gone": "82.80"}

        send(reporting, *EVENTS, instance("e-8", "03-30T00:00:00", "delete.end", **SHOP))
        go_on_by(metering, "this version")
        assert run_month(reporting, metering).kind == "correction"
        assert set(before) < set(documents(metering))
        assert totals(metering, "2026-03") == {"shop": "83.07", "gone": "82.80"}
        assert found(url, metering) == ()

        assert totals(metering, "2026-04") == {"shop": "67.32", "gone": "72.00"}
        run_month(reporting, metering, "2026-04", finalize=False)
        assert totals(metering, "2026-04") == {"shop": "6.12", "gone": "72.00"}
