"""S62: a page of the history reads about as many rows as it shows, wherever it is and whatever is asked for.

The server counts, so that it holds on any machine: the rows that it fetches by an index; no table is read whole.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from tally.domain.principal import ProjectKey
from tally.services.event_queries import get_lifecycle, list_events
from tally.services.projection import rebuild
from tally.services.resource_queries import list_resources
from tally.store.database import Connection, connected
from tally.store.reporting.queries import EventFilter, EventKey, ResourceFilter
from tests.bench.events import CLOUDS, START, copy_reporting, events
from tests.conftest import fresh_database

LIMIT = 50
COUNT = 30_000
NOON = START + timedelta(days=29, hours=12)


@pytest.fixture(scope="module")
def full(server_url: str, reporting_template: str) -> Iterator[Connection]:
    """A database whose planner knows that there is much in it."""
    with fresh_database(server_url, reporting_template) as url, connected(url) as connection:
        copy_reporting(connection, events(COUNT, COUNT // 25))
        rebuild(connection)
        # Of pages that no vacuum has seen the planner itself reads rows, to find out where an index ends.
        connection.execute("vacuum analyze")
        yield connection


class Reads:
    """What the server has read since this was made, in one session: tables as a whole, and rows by an index."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._before = self._counters()

    @property
    def scans(self) -> int:
        return self._counters()[0] - self._before[0]

    @property
    def rows(self) -> int:
        return self._counters()[1] - self._before[1]

    def _counters(self) -> tuple[int, int]:
        """Chunks of a hypertable are tables of their own."""
        row = self._connection.execute(
            """select coalesce(sum(seq_scan), 0), coalesce(sum(idx_tup_fetch), 0)
               from pg_stat_xact_user_tables
               where relname in ('events', 'current_resources') or schemaname = '_timescaledb_internal'"""
        ).fetchone()
        assert row is not None
        return int(row[0]), int(row[1])


def projects(connection: Connection, count: int) -> list[ProjectKey]:
    """Some projects, with their clouds."""
    return connection.execute(
        "select distinct cloud, project_id from reporting.events order by project_id, cloud limit %s", [count]
    ).fetchall()


@pytest.mark.parametrize("after", [None, (NOON, "", "")], ids=["first page", "later page"])
@pytest.mark.parametrize(
    "filters",
    [
        {},
        {"cloud": CLOUDS[1]},
        {"resource_type": "volume"},
        {"since": NOON, "until": NOON + timedelta(hours=1)},
        {"cloud": CLOUDS[0], "resource_type": "instance", "since": NOON - timedelta(days=1)},
        {"event_type": "compute.instance.exists"},
        {"project_id": "some"},
        {"project_id": "some", "cloud": "its own", "since": NOON - timedelta(days=1)},
        {"project_id": "no such"},
        {"cloud": "no such"},
    ],
)
def test_a_page_of_events_reads_what_it_shows(
    full: Connection, filters: dict[str, Any], after: EventKey | None
) -> None:
    """Whether all of it is asked for, a time, a project, or both."""
    cloud, project_id = projects(full, 40)[-1]
    known = {"some": project_id, "its own": cloud}
    wanted = EventFilter(**{name: known.get(str(value), value) for name, value in filters.items()})
    with full.transaction():  # in which the counters stand still for others
        reads = Reads(full)
        rows = list_events(full, wanted, visible=None, after=after, limit=LIMIT)
        assert reads.scans == 0
        assert len(rows) <= reads.rows <= 20 * LIMIT, "of a type, also those that lie between two of it"


@pytest.mark.parametrize("count", [0, 1, 10])
def test_a_page_of_a_consumer_reads_a_page_of_each_of_its_projects(full: Connection, count: int) -> None:
    """S61 costs no search through what belongs to others."""
    visible = frozenset(projects(full, count))
    with full.transaction():
        reads = Reads(full)
        rows = list_events(full, EventFilter(), visible=visible, after=(NOON, "", ""), limit=LIMIT)
        assert (reads.scans, bool(rows)) == (0, bool(count))
        assert reads.rows <= count * LIMIT


def test_the_events_and_the_lifecycle_of_a_resource_read_its_events(full: Connection) -> None:
    """And nothing else."""
    key = "select cloud, resource_type, resource_id, count(*) from reporting.events group by 1, 2, 3 order by 3 limit 1"
    row = full.execute(key).fetchone()
    assert row is not None
    *resource, count = row
    with full.transaction():
        reads = Reads(full)
        list_events(full, EventFilter(resource[0], None, *resource[1:]), visible=None, after=None, limit=LIMIT)
        assert (reads.scans, reads.rows) == (0, min(count, LIMIT))
        reads = Reads(full)
        get_lifecycle(full, (resource[0], resource[1], resource[2]), visible=None)
        assert (reads.scans, reads.rows) == (0, count)


@pytest.mark.parametrize(
    "filters", [{}, {"cloud": CLOUDS[0]}, {"status": "active"}, {"cloud": CLOUDS[1], "resource_type": "volume"}]
)
def test_a_page_of_the_inventory_reads_what_it_shows(full: Connection, filters: dict[str, Any]) -> None:
    """In the order of its key; a quarter of the resources lives."""
    after = (filters.get("cloud", CLOUDS[0]), filters.get("resource_type", "instance"), "8")
    with full.transaction():
        reads = Reads(full)
        rows = list_resources(full, ResourceFilter(**filters), visible=None, after=after, limit=LIMIT)
        assert (reads.scans, len(rows)) == (0, LIMIT)
        assert reads.rows <= 8 * LIMIT
