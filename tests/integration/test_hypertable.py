"""Where the server offers TimescaleDB, events is a hypertable with the compression layout of the design (section 3)."""

import pytest

from tally.services.projection import rebuild
from tally.store.database import Connection
from tests.integration.sending import send, volume


@pytest.fixture
def hypertable(reporting: Connection) -> Connection:
    """The reporting database, if its events are a hypertable."""
    if not reporting.execute("select 1 from pg_extension where extname = 'timescaledb'").fetchone():
        pytest.skip("the server does not offer TimescaleDB; name one that does with TALLY_TEST_SERVER_URL")
    return reporting


@pytest.fixture
def compressed(hypertable: Connection) -> Connection:
    """The reporting database, if TimescaleDB compresses its events: its Apache edition does not."""
    if hypertable.execute("show timescaledb.license").fetchone() != ("timescale",):
        pytest.skip("the server offers the Apache edition of TimescaleDB, which does not compress")
    return hypertable


def test_chunks_are_months(hypertable: Connection) -> None:
    assert hypertable.execute(
        """select d.column_name, d.time_interval
           from timescaledb_information.dimensions as d where d.hypertable_name = 'events'"""
    ).fetchall() == [("timestamp", hypertable.execute("select interval '1 month'").fetchone()[0])]  # type: ignore[index]


def test_chunks_are_segmented_by_cloud_and_type(compressed: Connection) -> None:
    """S63: the layout that was measured best: in the order in which timelines read them."""
    settings = compressed.execute(
        """select attname, segmentby_column_index, orderby_column_index
           from timescaledb_information.compression_settings where hypertable_name = 'events'"""
    ).fetchall()
    assert {name for name, segment, _ in settings if segment} == {"cloud", "resource_type"}
    order = sorted((place, name) for name, _, place in settings if place)
    assert [name for _, name in order] == ["resource_id", "timestamp", "event_id"]


def test_a_late_event_goes_into_a_compressed_month(compressed: Connection) -> None:
    """Rules 3 and 11: compression stops neither duplicates from being known nor late events from being folded."""
    send(compressed, volume("a", "05T00:00:00", "volume.create.end", 10))
    send(compressed, volume("b", "20T00:00:00", "volume.resize.end", 30))
    compressed.execute("select compress_chunk(c) from show_chunks('reporting.events') as c")
    late = volume("late", "10T00:00:00", "volume.resize.end", 20)
    assert [outcome.status for outcome in send(compressed, late, late)] == ["accepted", "deduplicated"]
    again = volume("a", "05T00:00:00", "volume.create.end", 10)
    assert [outcome.status for outcome in send(compressed, again)] == ["deduplicated"]
    row = "select size, last_event_id from reporting.current_resources"
    folded = compressed.execute(row).fetchall()
    rebuild(compressed)
    assert folded == compressed.execute(row).fetchall() == [({"size_gb": 30}, "b")]
