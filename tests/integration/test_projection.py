"""The projection current_resources: in order, late, and rebuilt (rules 8 and 11)."""

import pytest

from tally.services.projection import rebuild
from tally.store.database import Connection
from tests.bench.events import raw_events
from tests.integration.sending import (
    CLOUD,
    CREATE,
    DELETE,
    RESIZE,
    at,
    current,
    dead_letters,
    door,
    event,
    projection,
    send,
    statuses,
    volume,
)


def test_rule_11_in_order_events_update_the_row(reporting: Connection) -> None:
    """Rule 11: size, state, owner, beginning and end follow the events."""
    transfer = event("3", "03T00:00:00", "volume.transfer.accept.end", project_id="p-2")
    send(reporting, volume("1", "01T00:00:00", CREATE, 10))
    assert (current(reporting)["state"], current(reporting)["created_at"]) == ("available", at("01T00:00:00"))
    send(reporting, volume("2", "02T00:00:00", RESIZE, 20), transfer)
    assert (current(reporting)["size"], current(reporting)["project_id"]) == ({"size_gb": 20}, "p-2")
    send(reporting, event("4", "04T00:00:00", DELETE))
    assert (current(reporting)["state"], current(reporting)["deleted_at"]) == ("deleted", at("04T00:00:00"))
    send(reporting, volume("5", "05T00:00:00", CREATE, 50))
    assert (current(reporting)["created_at"], current(reporting)["deleted_at"]) == (at("05T00:00:00"), None)


def test_rule_11_a_late_event_rebuilds_the_row(reporting: Connection) -> None:
    """Rule 11: it changes what is current only where nothing later says otherwise."""
    send(reporting, event("1", "01T00:00:00", CREATE), event("3", "05T00:00:00", "volume.attach.end"))
    send(reporting, volume("2", "03T00:00:00", RESIZE, 20))
    row = current(reporting)
    assert (row["size"], row["state"], row["last_event_id"]) == ({"size_gb": 20}, "in-use", "3")


def test_rule_9_a_collector_voids_what_reconciliation_guessed(reporting: Connection) -> None:
    """Rule 9: a synthetic delete, then a sign of life: the row is replayed, and open."""
    send(reporting, volume("1", "01T00:00:00", CREATE, 10))
    send(reporting, event("sync", "02T00:00:00", "reconcile.delete", source="reconciliation"))
    assert current(reporting)["state"] == "deleted"
    send(reporting, volume("2", "03T00:00:00", RESIZE, 20))
    row = current(reporting)
    assert (row["state"], row["size"], row["has_synthetic"]) == ("available", {"size_gb": 20}, True)


@pytest.mark.parametrize("effect", ["create", "update", "delete"])
def test_rule_9_a_collector_does_not_conclude(reporting: Connection, effect: str) -> None:
    """Rule 9: as its word, what reconciliation guesses could never be voided; it is kept as a dead letter."""
    send(reporting, volume("1", "01T00:00:00", CREATE, 10))
    guess = event("2", "02T00:00:00", f"reconcile.{effect}")
    assert statuses(send(reporting, guess)) == ["invalid_event"]
    assert dead_letters(reporting) == [(CLOUD, "2", "invalid_event")]
    assert current(reporting)["last_event_id"] == "1"
    assert statuses(send(reporting, guess | {"source": "reconciliation"})) == ["accepted"]


def test_rule_11_the_projection_can_be_rebuilt_whole(reporting: Connection) -> None:
    """Rule 11: after every row was spoiled, lost or made up, the same rows stand there as before."""
    door(reporting).ingest(list(raw_events(3000, 700)))
    before = projection(reporting)
    reporting.execute(
        "update reporting.current_resources set size = '{\"size_gb\": 0}', last_state = 'x' where resource_id < '8'"
    )
    reporting.execute("delete from reporting.current_resources where resource_id > 'c'")
    reporting.execute(
        'insert into reporting.current_resources select (jsonb_populate_record(c, \'{"resource_id": "made up"}\')).*'
        " from reporting.current_resources as c limit 1"
    )
    assert projection(reporting) != before
    assert rebuild(reporting) == len(before) == 700
    assert projection(reporting) == before


def test_rule_11_one_cloud_can_be_rebuilt_alone(reporting: Connection) -> None:
    """Rule 11: other clouds are left as they are."""
    for cloud in ("a", "b", "c"):
        send(reporting, volume("1", "01T00:00:00", CREATE, 10, cloud=cloud))
    reporting.execute("update reporting.current_resources set last_state = 'spoiled'")
    assert rebuild(reporting, cloud="b") == 1
    states = reporting.execute("select cloud, last_state from reporting.current_resources order by cloud").fetchall()
    assert states == [("a", "spoiled"), ("b", "available"), ("c", "spoiled")]
