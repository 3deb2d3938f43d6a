"""Two databases that are brought together come to the same, wherever that was broken off and begun again."""

import random
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from itertools import count
from typing import Any

import psycopg
import pytest
from psycopg.rows import TupleRow

from tally.services.handover import bring_together
from tally.services.ingest import Ingest
from tally.services.load import load
from tally.store.database import Connection, connected
from tests.conftest import temporary_home
from tests.integration.closing import SMALL, SMALL_MONTH, instance
from tests.integration.command_line import PATIENCE, TALLY, environment
from tests.integration.metering_sql import NOW
from tests.integration.sending import projection, send
from tests.integration.test_restored import CONCLUDED, FIRST, LATER, backup

CONTENTS = (
    """select cloud, resource_type, resource_id, timestamp, event_id, event_type, project_id, source, payload::text
       from reporting.events order by 1, 2, 3, 4, 5""",
    "select cloud, event_id, content_hash from reporting.event_ids order by 1, 2",
    """select cloud, event_id
       from reporting.event_ids inner join reporting.pending_batches using (batch_id) order by 1, 2""",
    "select load_id, started_at from reporting.last_load",
    "select cloud, event_id, reason from reporting.rejected_events order by 1, 2",
)


class KilledError(Exception):
    """The end of the process, as its databases see it: the statement never comes, and the transaction is undone."""


def dying_after(statements: int) -> type[psycopg.Cursor[TupleRow]]:
    """Cursors of a process that has so many statements to live."""
    left = iter(range(statements))

    class Dying(psycopg.Cursor[TupleRow]):
        def execute(self, *arguments: Any, **options: Any) -> "Dying":
            if next(left, None) is None:
                raise KilledError
            return super().execute(*arguments, **options)

    return Dying


def contents(reporting: Connection) -> list[Any]:
    """What a reporting database holds, what of it waits for a load, and the load that it remembers."""
    return [reporting.execute(query.encode()).fetchall() for query in CONTENTS] + [projection(reporting)]


def together(reporting: Connection, metering_url: str) -> None:
    """As `tally rebuild --events`, two events at a time."""
    door = Ingest(reporting, clock=lambda: NOW, clock_skew=timedelta(0), actor="test")
    with connected(metering_url) as metering:
        bring_together(reporting, metering, door, at_once=2)


def taken_over(reporting_url: str, metering_url: str, *events: dict[str, Any]) -> None:
    """Send events, and load them."""
    with connected(reporting_url) as reporting, connected(metering_url) as metering:
        send(reporting, *events)
        load(reporting, metering, lambda: NOW)


@contextmanager
def restored(server_url: str, reporting_url: str, metering_url: str, which: str) -> Iterator[tuple[str, str]]:
    """The two databases, of which one is a backup of a time before the last load."""
    taken_over(reporting_url, metering_url, *FIRST)
    urls = {"reporting": reporting_url, "metering": metering_url}
    with backup(server_url, urls[which]) as older:
        taken_over(reporting_url, metering_url, *LATER, CONCLUDED)
        urls[which] = older
        yield urls["reporting"], urls["metering"]


@pytest.mark.parametrize(("older", "statements"), [("reporting", 25), ("metering", 5)])
def test_at_whichever_statement_it_was_broken_off_the_next_comes_to_the_same(
    server_url: str, reporting_url: str, metering_url: str, older: str, statements: int
) -> None:
    """Nothing is lost or there twice, the projection included, and the marker says what both have."""
    with restored(server_url, reporting_url, metering_url, older) as (found_url, other_url):
        with backup(server_url, found_url) as url, connected(url) as reporting:
            together(reporting, other_url)
            expected = contents(reporting)
        for lived in count():
            with backup(server_url, found_url) as url:
                killed = True
                with connected(url, cursor_factory=dying_after(lived)) as reporting, suppress(KilledError):
                    together(reporting, other_url)
                    killed = False
                with connected(url) as reporting:
                    together(reporting, other_url)
                    assert contents(reporting) == expected, lived
            if not killed:
                break
    assert lived >= statements


@pytest.mark.drill
def test_whenever_the_command_is_killed_the_next_one_comes_to_the_same(
    server_url: str, reporting_url: str, metering_url: str, dagster_url: str
) -> None:
    """By kill -9, of some thousand events of which most are lacking."""
    more = [instance(f"m-{n}", f"03-{1 + n % 28:02}T00:00:00", "create.end", f"m-{n}", size=SMALL) for n in range(5000)]
    chance = random.Random(7)
    taken_over(reporting_url, metering_url, *SMALL_MONTH)
    with temporary_home() as home, backup(server_url, reporting_url) as older_url:
        for start in range(0, len(more), 1000):
            taken_over(reporting_url, metering_url, *more[start : start + 1000])
        variables = environment(TALLY_HOME=str(home), TALLY_METERING_URL=metering_url, TALLY_DAGSTER_URL=dagster_url)

        def begin(url: str) -> "subprocess.Popen[bytes]":
            command = [str(TALLY), "rebuild", "--events"]
            return subprocess.Popen(command, env=variables | {"TALLY_REPORTING_URL": url}, stdout=subprocess.DEVNULL)

        with backup(server_url, older_url) as url:
            begun = time.monotonic()
            assert begin(url).wait(PATIENCE) == 0
            took = time.monotonic() - begun
            with connected(url) as reporting:
                expected = contents(reporting)
        broken_off = 0
        for _ in range(10):
            with backup(server_url, older_url) as url:
                victim = begin(url)
                time.sleep(took * (0.3 + 0.7 * chance.random()))
                victim.kill()
                victim.wait(PATIENCE)
                with connected(url) as reporting:
                    broken_off += 0 < len(contents(reporting)[0]) - len(SMALL_MONTH) < len(more)
                assert begin(url).wait(PATIENCE) == 0
                with connected(url) as reporting:
                    assert contents(reporting) == expected
        assert broken_off
