"""The made-up events of the benchmarks: repeatable, valid, and the same by every way into the database."""

from collections import Counter
from datetime import timedelta
from itertools import pairwise

from tally.services.ingest import Ingest
from tally.services.projection import rebuild
from tally.store.database import Connection, connected
from tests.bench.events import END, START, copy_raw, copy_reporting, events, raw_events
from tests.conftest import fresh_database
from tests.integration.sending import count, projection


def test_the_same_arguments_give_the_same_events() -> None:
    """Runs can be compared only if they do the same work; another seed makes another cloud."""
    some = list(events(500, 50, seed=3))
    assert some == list(events(500, 50, seed=3))
    assert not {event.event_id for event in some} & {event.event_id for event in events(500, 50, seed=4)}


def test_events_come_in_the_order_of_time_and_begin_with_a_creation() -> None:
    """Two months, each resource at least twice, a quarter of them alive at the end."""
    some = list(events(1000, 100))
    assert all(one.timestamp <= other.timestamp for one, other in pairwise(some))
    assert START <= some[0].timestamp <= some[-1].timestamp < END
    firsts = {event.resource: event.event_type for event in reversed(some)}
    lasts = {event.resource: event.event_type for event in some}
    assert len(firsts) == 100
    assert all(event_type.endswith("create.end") for event_type in firsts.values())
    assert Counter(event_type.endswith("delete.end") for event_type in lasts.values()) == {True: 75, False: 25}


def test_a_copy_holds_what_ingestion_holds(
    reporting: Connection, metering: Connection, server_url: str, reporting_template: str
) -> None:
    """All events are accepted; copied and rebuilt, they give the same database as ingested."""
    service = Ingest(reporting, clock=lambda: END, clock_skew=timedelta(0), actor="test")
    assert {outcome.status for outcome in service.ingest(list(raw_events(2000, 80)))} == {"accepted"}
    with fresh_database(server_url, reporting_template) as url, connected(url) as other:
        assert copy_reporting(other, events(2000, 80)) == 2000
        rebuild(other)
        assert projection(other) == projection(reporting)
        same = "select cloud, event_id, content_hash from reporting.event_ids order by cloud, event_id"
        assert other.execute(same).fetchall() == reporting.execute(same).fetchall()
        assert count(other, "pending_batches") == 1
    assert copy_raw(metering, events(2000, 80)) == 2000
