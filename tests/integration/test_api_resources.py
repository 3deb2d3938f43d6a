"""The inventory, and the events and the lifecycle of one resource (S61)."""

from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote

import pytest

from tally.domain.principal import Principal, Role
from tally.services.registry import define_type
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.api_server import Client, exact, live_api
from tests.integration.callers import api_for, consumer
from tests.integration.sending import CLOUD, CREATE, DELETE, RESIZE, event, send, volume

RESOURCES = "/api/v1/resources"
TRANSFER = "volume.transfer.accept.end"
REPOSITORY = {"platform": "harbor", "cloud": "harbor-1", "resource_type": "repository"}


def of(resource_id: str, what: str, cloud: str = CLOUD, resource_type: str = "volume") -> str:
    """The address of what is told of a resource."""
    return f"{RESOURCES}/{cloud}/{resource_type}/{resource_id}/{what}"


SENT = (
    volume("1", "01T00:00:00", CREATE, 10, resource_id="v-1"),
    volume("2", "02T00:00:00", RESIZE, 20, resource_id="v-1"),
    event("3", "03T00:00:00", DELETE, "v-1"),
    volume("4", "01T00:00:00", CREATE, 10, resource_id="v-2"),
    event("5", "02T00:00:00", TRANSFER, "v-2", project_id="p-2"),
    volume("6", "03T00:00:00", RESIZE, 30, resource_id="v-2", project_id="p-2"),
    volume("7", "01T00:00:00", CREATE, 10, resource_id="v-3", project_id="p-2"),
    event("8", "01T00:00:00", CREATE, "v-1", cloud="os-test"),
    event("9", "01T00:00:00", "compute.instance.create.end", "i-1", resource_type="instance"),
)


@pytest.fixture(scope="module")
def callers(server_url: str, reporting_template: str, idle_metering_url: str) -> Iterator[Mapping[str, Client]]:
    """An operator, and the customers p-1 and p-2 of one cloud, over what was sent."""
    who = {"operator": Principal("operator", Role.OPERATOR)}
    who |= {project: consumer((CLOUD, project)) for project in ("p-1", "p-2")}
    with fresh_database(server_url, reporting_template) as reporting:
        with connected(reporting) as connection:
            assert {outcome.status for outcome in send(connection, *SENT)} == {"accepted"}
        with api_for(reporting, idle_metering_url, who) as clients:
            yield clients


def ids(client: Client, **filters: Any) -> list[tuple[str, str]]:
    """(cloud, id) of a walk through the inventory by pages of two."""
    return [(row["cloud"], row["resource_id"]) for row in client.items(RESOURCES, limit=2, **filters)]


def test_the_inventory_shows_what_the_projection_says(callers: Mapping[str, Client]) -> None:
    """The last configuration, the beginning and the end of the last life, the last event."""
    first = {row["resource_id"]: row for row in callers["operator"].items(RESOURCES, cloud=CLOUD)}["v-1"]
    assert first == {
        "cloud": CLOUD,
        "platform": "openstack",
        "resource_type": "volume",
        "resource_id": "v-1",
        "project_id": "p-1",
        "state": "deleted",
        "size": {"size_gb": 20},
        "created_at": "2026-03-01T00:00:00Z",
        "deleted_at": "2026-03-03T00:00:00Z",
        "last_event_id": "3",
        "last_event_type": DELETE,
        "last_event_at": "2026-03-03T00:00:00Z",
    }


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, [(CLOUD, "i-1"), (CLOUD, "v-1"), (CLOUD, "v-2"), (CLOUD, "v-3"), ("os-test", "v-1")]),
        ({"status": "all"}, [(CLOUD, "i-1"), (CLOUD, "v-1"), (CLOUD, "v-2"), (CLOUD, "v-3"), ("os-test", "v-1")]),
        ({"status": "active"}, [(CLOUD, "i-1"), (CLOUD, "v-2"), (CLOUD, "v-3"), ("os-test", "v-1")]),
        ({"status": "deleted"}, [(CLOUD, "v-1")]),
        ({"status": "active", "project_id": "p-2"}, [(CLOUD, "v-2"), (CLOUD, "v-3")]),
        ({"cloud": "os-test"}, [("os-test", "v-1")]),
        ({"resource_type": "instance"}, [(CLOUD, "i-1")]),
        ({"resource_id": "v-1"}, [(CLOUD, "v-1"), ("os-test", "v-1")]),
        ({"state": "deleted"}, [(CLOUD, "v-1")]),
        ({"state": "available", "cloud": CLOUD}, [(CLOUD, "v-2"), (CLOUD, "v-3")]),
        ({"state": "no such"}, []),
    ],
)
def test_the_inventory_is_filtered_and_walked_page_by_page(
    callers: Mapping[str, Client], filters: dict[str, str], found: list[tuple[str, str]]
) -> None:
    """In the order of (cloud, resource_type, resource_id); active is what lives."""
    assert ids(callers["operator"], **filters) == found


def test_s61_a_consumer_sees_the_resources_that_are_its_own_now(callers: Mapping[str, Client]) -> None:
    """S61: after a transfer the inventory of the new owner holds it, that of the former does not."""
    assert ids(callers["p-1"]) == [(CLOUD, "i-1"), (CLOUD, "v-1")]
    assert ids(callers["p-2"]) == [(CLOUD, "v-2"), (CLOUD, "v-3")]
    assert ids(callers["p-1"], cloud="os-test") == []
    assert callers["p-1"].get(RESOURCES, project_id="p-2").status_code == 403
    assert callers["p-1"].get(RESOURCES, project_id="p-1", cloud="os-test").status_code == 403


def test_other_words_for_status_are_refused(callers: Mapping[str, Client]) -> None:
    """400: a state such as shutoff is asked for as a state."""
    assert callers["operator"].get(RESOURCES, status="shutoff").status_code == 400


def test_the_events_of_a_resource_come_in_the_order_of_time(callers: Mapping[str, Client]) -> None:
    """Page by page, each once."""
    found = callers["operator"].items(of("v-1", "events"), limit=1)
    assert [each["event_id"] for each in found] == ["1", "2", "3"]
    assert found[1] == SENT[1] | {"source": "collector"}


def test_the_lifecycle_is_create_resize_delete(callers: Mapping[str, Client]) -> None:
    """The seed's example: what it was, from when to when, and which events say so."""
    found = exact(callers["operator"].get(of("v-1", "lifecycle")))
    (row,) = callers["operator"].items(RESOURCES, cloud=CLOUD, resource_type="volume", resource_id="v-1")
    assert found.pop("current") == row
    assert found == {
        "cloud": CLOUD,
        "platform": "openstack",
        "resource_type": "volume",
        "resource_id": "v-1",
        "lifetimes": [
            {
                "from": "2026-03-01T00:00:00Z",
                "to": "2026-03-03T00:00:00Z",
                "open_left": False,
                "intervals": [
                    interval("01", "02", 10, "p-1", ("1", CREATE), ("2", RESIZE)),
                    interval("02", "03", 20, "p-1", ("2", RESIZE), ("3", DELETE)),
                ],
            }
        ],
        "anomalies": [],
    }


def test_s61_each_owner_sees_its_own_part_of_a_lifecycle(callers: Mapping[str, Client]) -> None:
    """S61, S22: the former owner up to the transfer, whose event is another's; the present one from there on."""
    former = exact(callers["p-1"].get(of("v-2", "lifecycle")))
    present = exact(callers["p-2"].get(of("v-2", "lifecycle")))
    assert former["current"] is None
    assert [life["intervals"] for life in former["lifetimes"]] == [
        [interval("01", "02", 10, "p-1", ("4", CREATE), None)]
    ]
    assert [(life["from"], life["to"]) for life in former["lifetimes"]] == [
        ("2026-03-01T00:00:00Z", "2026-03-02T00:00:00Z")
    ]
    assert present["current"]["project_id"] == "p-2"
    assert [life["intervals"] for life in present["lifetimes"]] == [
        [
            interval("02", "03", 10, "p-2", ("5", TRANSFER), ("6", RESIZE)),
            interval("03", None, 30, "p-2", ("6", RESIZE), None),
        ]
    ]
    for client, own in (("p-1", ["4"]), ("p-2", ["5", "6"])):
        assert [each["event_id"] for each in callers[client].items(of("v-2", "events"))] == own


@pytest.mark.parametrize("what", ["events", "lifecycle"])
def test_s61_a_foreign_resource_is_as_unknown_as_one_that_never_was(
    callers: Mapping[str, Client], what: str
) -> None:
    """S61: 404 with the same words: not even that it exists is told."""
    foreign, unknown = (callers["p-1"].get(of(resource_id, what)) for resource_id in ("v-3", "v-9"))
    assert (foreign.status_code, unknown.status_code) == (404, 404)
    assert foreign.json()["detail"].replace("v-3", "v-9") == unknown.json()["detail"]
    assert callers["operator"].get(of("v-3", what)).status_code == 200
    assert callers["p-1"].get(of("v-1", what, cloud="os-test")).status_code == 404


@pytest.mark.parametrize("resource_id", ["team-alpha/app", "a/b/c", "events", "x/lifecycle", "ü ?#%/z", "a//b"])
def test_an_id_may_hold_slashes_and_whatever_else(
    reporting: Connection, reporting_url: str, idle_metering_url: str, resource_id: str
) -> None:
    """Harbor's repositories; a name that looks like the end of an address is a name."""
    define_type(reporting, "harbor", "repository", {"lifecycle": {"push": "create"}}, "test")
    send(reporting, event("1", "01T00:00:00", "push", resource_id, **REPOSITORY))
    with live_api(reporting_url, idle_metering_url) as client:
        for written in (quote(resource_id), quote(resource_id, safe="")):
            place = f"{RESOURCES}/harbor-1/repository/{written}"
            assert exact(client.get(f"{place}/lifecycle"))["resource_id"] == resource_id
            assert [each["resource_id"] for each in client.items(f"{place}/events")] == [resource_id]


def test_a_life_of_no_length_and_an_anomaly_are_shown(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """S24, S01: created and deleted at one instant is a life without intervals; what comes after is told apart."""
    send(
        reporting,
        volume("1", "01T00:00:00", CREATE, 10),
        event("2", "01T00:00:00", DELETE),
        volume("3", "02T00:00:00", RESIZE, 20),
    )
    with live_api(reporting_url, idle_metering_url) as client:
        found = exact(client.get(of("v-1", "lifecycle")))
    instant = "2026-03-01T00:00:00Z"
    assert found["lifetimes"] == [{"from": instant, "to": instant, "open_left": False, "intervals": []}]
    assert found["anomalies"] == [
        {
            "kind": "after_delete",
            "event_id": "3",
            "event_type": RESIZE,
            "timestamp": "2026-03-02T00:00:00Z",
            "project_id": "p-1",
        }
    ]


def interval(
    start: str, end: str | None, size_gb: int, project_id: str, begun: tuple[str, str], ended: tuple[str, str] | None
) -> dict[str, Any]:
    """An interval as the API shows it, between days of March 2026."""
    return {
        "from": f"2026-03-{start}T00:00:00Z",
        "to": end and f"2026-03-{end}T00:00:00Z",
        "state": "available",
        "size": {"size_gb": size_gb},
        "project_id": project_id,
        "from_event_id": begun[0],
        "from_event_type": begun[1],
        "to_event_id": ended and ended[0],
        "to_event_type": ended and ended[1],
    }


def test_s61_a_last_event_of_another_project_is_not_named(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """S61: usage and a delete leave a resource with its owner, whoever sends them; their ids are not the owner's."""
    send(
        reporting,
        *(volume(f"{name} create", "01T00:00:00", CREATE, 10, resource_id=name) for name in ("own", "other")),
        event("own delete", "02T00:00:00", DELETE, "own"),
        event("other delete", "02T00:00:00", DELETE, "other", project_id="p-2"),
    )
    who = {"operator": Principal("operator", Role.OPERATOR)}
    who |= {"p-1": consumer((CLOUD, "p-1")), "both": consumer((CLOUD, "p-1"), (CLOUD, "p-2"))}
    named, nothing = ("other delete", DELETE), (None, None)
    with api_for(reporting_url, idle_metering_url, who) as callers:
        for caller, last in (("operator", named), ("both", named), ("p-1", nothing)):
            rows = {row["resource_id"]: row for row in callers[caller].items(RESOURCES, project_id="p-1")}
            assert (rows["own"]["last_event_id"], rows["own"]["last_event_type"]) == ("own delete", DELETE)
            assert (rows["other"]["last_event_id"], rows["other"]["last_event_type"]) == last
            assert exact(callers[caller].get(of("other", "lifecycle")))["current"] == rows["other"]
