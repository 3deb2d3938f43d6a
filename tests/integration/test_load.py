"""The raw copy by arrival, and what is derived again after it (rules 12 and 18)."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from tally.services import runs
from tally.services.load import load
from tally.services.projects import ProjectPatch, create_project, patch_project
from tally.store.database import Connection, connect
from tally.store.metering.load import events_query
from tests.integration.metering_sql import meter
from tests.integration.sending import send, volume


def clock() -> datetime:
    return datetime(2026, 5, 1, tzinfo=UTC)


def loaded(metering: Connection) -> dict[str, int]:
    """The load of each event."""
    return dict(metering.execute("select event_id, load_id from raw.events").fetchall())  # type: ignore[arg-type]


def test_a_load_brings_what_has_arrived_of_whatever_month_and_the_next_one_only_what_is_new(
    reporting: Connection, metering: Connection
) -> None:
    """Rule 18: events go by arrival, each is stamped with the load that brought it."""
    send(reporting, volume("a", "05T00:00:00", "volume.create.end", 10))
    assert load(reporting, metering, clock).events == 1
    send(
        reporting,
        volume("b", "01T00:00:00", "volume.resize.end", 20),
        volume("c", "31T00:00:00", "volume.resize.end", 30),
    )
    second = load(reporting, metering, clock)
    assert (second.load_id, second.events) == (2, 2)
    assert loaded(metering) == {"a": 1, "b": 2, "c": 2}
    assert load(reporting, metering, clock).events == 0


@contextmanager
def open_transaction(url: str, *sent: dict[str, Any]) -> Iterator[Connection]:
    """Ingest in a transaction that stays open for the block and then commits."""
    connection = connect(url)
    with connection.transaction():
        send(connection, *sent)
        yield connection
    connection.close()


def test_an_event_that_commits_while_a_load_reads_is_in_the_next_load(
    reporting: Connection, reporting_url: str, metering: Connection
) -> None:
    """Rule 18: its batch was numbered before the load and committed after it, and it is in exactly one."""
    send(reporting, volume("first", "04T00:00:00", "volume.create.end", 10))
    load(reporting, metering, clock)
    with open_transaction(reporting_url, volume("slow", "05T00:00:00", "volume.create.end", 10, resource_id="v-slow")):
        send(reporting, volume("quick", "06T00:00:00", "volume.create.end", 10, resource_id="v-quick"))
        load(reporting, metering, clock)
    load(reporting, metering, clock)
    assert loaded(metering) == {"first": 1, "quick": 2, "slow": 3}


def test_a_load_that_died_after_it_committed_is_repeated_without_harm(
    reporting: Connection, metering: Connection
) -> None:
    """Rule 18: a batch leaves the outbox only after the copy has committed, and its key drops what comes twice."""
    send(reporting, volume("a", "05T00:00:00", "volume.create.end", 10))
    [(batch,)] = reporting.execute("select batch_id from reporting.pending_batches").fetchall()
    load(reporting, metering, clock)
    reporting.execute("insert into reporting.pending_batches (batch_id) values (%s)", [batch])
    assert load(reporting, metering, clock).events == 0
    assert loaded(metering) == {"a": 1}
    assert reporting.execute("select count(*) from reporting.pending_batches").fetchone() == (0,)


def test_pending_events_are_read_in_the_order_of_their_key_be_they_all_or_some(
    reporting: Connection, metering: Connection
) -> None:
    """Rule 18: all are read by another query than those that have arrived since a load."""
    send(
        reporting,
        volume("b", "05T00:00:00", "volume.create.end", 10, resource_id="w"),
        volume("c", "04T00:00:00", "volume.create.end", 10, resource_id="w"),
        volume("a", "06T00:00:00", "volume.create.end", 10, resource_id="v"),
    )
    of_all = events_query(reporting, 1)
    assert event_ids(reporting, of_all) == ["a", "c", "b"]
    load(reporting, metering, clock)
    send(
        reporting,
        volume("e", "08T00:00:00", "volume.resize.end", 20, resource_id="w"),
        volume("d", "09T00:00:00", "volume.resize.end", 20, resource_id="v"),
    )
    of_some = events_query(reporting, 1)
    assert event_ids(reporting, of_some) == ["d", "e"]
    assert of_some != of_all


def event_ids(reporting: Connection, query: str) -> list[str]:
    """The events that a query reads, in its order."""
    return [row[5] for row in reporting.execute(query.encode()).fetchall()]


def test_only_resources_with_new_events_are_derived_again(reporting: Connection, metering: Connection) -> None:
    """S63, rule 12: the rows of a resource without news are the very same rows, those of the other one are new."""
    send(
        reporting,
        volume("a", "05T00:00:00", "volume.create.end", 10, resource_id="quiet"),
        volume("b", "05T00:00:00", "volume.create.end", 10, resource_id="busy"),
    )
    first = versions(reporting, metering)
    send(reporting, volume("c", "06T00:00:00", "volume.resize.end", 20, resource_id="busy"))
    second = versions(reporting, metering)
    assert second["quiet"] == first["quiet"]
    assert len(second["busy"]) == 2
    assert not set(second["busy"]) & set(first["busy"])


def test_a_changed_registry_derives_everything_again(reporting: Connection, metering: Connection) -> None:
    """Rules 6 and 12: what an event does depends on the version of the registry, so no timeline survives it."""
    send(reporting, volume("a", "05T00:00:00", "volume.create.end", 10, resource_id="quiet"))
    first = versions(reporting, metering)
    reporting.execute(
        """insert into reporting.resource_types (platform, resource_type, version, definition, content_hash, origin)
           select 'test', 'thing', max(version) + 1, '{}', '', 'operator' from reporting.resource_types"""
    )
    assert not set(versions(reporting, metering)["quiet"]) & set(first["quiet"])


def versions(reporting: Connection, metering: Connection) -> dict[str, list[str]]:
    """Which transaction wrote the interval rows of each resource."""
    runs.fail(metering, meter(reporting, metering, select="+int_proved_lives").id, "of no further interest")
    rows = metering.execute(
        """select resource_id, array_agg(version)
           from (
               select resource_id, xmin::text || ctid::text as version from metering.int_intervals_first_half
               union all
               select resource_id, xmin::text || ctid::text from metering.int_intervals_second_half
           ) as intervals
           group by 1"""
    )
    return dict(rows.fetchall())  # type: ignore[arg-type]


def test_a_load_keeps_the_projects_that_have_changed(reporting: Connection, metering: Connection) -> None:
    """Back to a former name, too; what has not changed is not kept again."""
    project = create_project(reporting, "openstack", "os-prod-eu1", "shop", "Shop", {"cost_centre": 1}, "test")
    create_project(reporting, "openstack", "os-prod-eu1", "other", None, {}, "test")
    patches: list[ProjectPatch] = [{}, {"name": None}, {"metadata": {"cost_centre": 2}}, {"metadata": {"x": "y"}}, {}]
    patches += [{"name": "Shop", "metadata": {"cost_centre": 1, "x": None}}]
    for patch in patches:
        patch_project(reporting, project.id, patch, "test")
        load(reporting, metering, clock)
    kept = metering.execute("select load_id, external_id, name, metadata::text from raw.projects order by 1, 2")
    assert kept.fetchall() == [
        (1, "other", None, "{}"),
        (1, "shop", "Shop", '{"cost_centre": 1}'),
        (2, "shop", None, '{"cost_centre": 1}'),
        (3, "shop", None, '{"cost_centre": 2}'),
        (4, "shop", None, '{"x": "y", "cost_centre": 2}'),
        (6, "shop", "Shop", '{"cost_centre": 1}'),
    ]
