"""The registry of resource types over HTTP: what an operator is told (rule 6)."""

from typing import Any

import pytest

from tally.store.database import Connection
from tests.integration.api_server import Client, exact
from tests.integration.sending import event

TYPES = "/api/v1/resource-types"
SHARE = f"{TYPES}/openstack/share"
DEFINITION: dict[str, Any] = {
    "size": {"type": "object", "properties": {"size_gb": {"type": "number", "minimum": 0.5}}},
    "lifecycle": {"share.create.end": {"effect": "create", "state": "available"}, "share.delete.end": "delete"},
    "normal_states": ["available"],
    "descriptive": [],
    "counters": ["egress_gb"],
}


def sent(api: Client, event_id: str = "1", size_gb: float = 2) -> None:
    """Send the creation of a share."""
    content = event(event_id, "01T00:00:00", "share.create.end", f"s-{event_id}", resource_type="share")
    assert api.post("/api/v1/events", content | {"payload": {"size": {"size_gb": size_gb}}}).status_code == 201


def test_a_type_is_registered_once(api: Client) -> None:
    """201 the first time, 200 and no change the second, and what was written comes back with its decimals."""
    first = api.put(SHARE, DEFINITION)
    assert (first.status_code, first.json()["changed"], first.json()["invalidates"]) == (201, True, [])
    again = api.put(SHARE, DEFINITION)
    assert (again.status_code, again.json()["changed"]) == (200, False)
    assert again.json()["version"] == first.json()["version"]
    shown = exact(api.get(SHARE))
    assert exact(api.get(TYPES, platform="openstack", limit=1000))["items"][-2]["resource_type"] == "share"
    assert (shown["origin"], shown["versions"]) == ("operator", [first.json()["version"]])
    assert str(shown["definition"]["size"]["properties"]["size_gb"]["minimum"]) == "0.5"


def test_events_are_judged_by_it_at_once(api: Client) -> None:
    """The next event of the type is taken, one that does not fit is refused."""
    api.put(SHARE, DEFINITION)
    sent(api)
    refused = api.post(
        "/api/v1/events",
        event("2", "01T00:00:00", "share.create.end", resource_type="share", payload={"size": {"size_gb": 0.25}}),
    )
    assert (refused.status_code, refused.json()["reason"]) == (400, "invalid_size")


def test_all_types_are_listed_page_by_page(api: Client) -> None:
    """The shipped ones first of all; a filter by platform holds on every page."""
    everything = api.items(TYPES)
    assert api.items(TYPES, limit=2) == everything
    assert {item["platform"] for item in everything} >= {"openstack", "harbor", "gardener"}
    assert [item["resource_type"] for item in api.items(TYPES, platform="stackit", limit=1)] == [
        "database",
        "kubernetes_cluster",
        "server",
        "volume",
    ]


def test_an_unknown_type_is_not_found(api: Client) -> None:
    """A name that nobody registered, and one that nobody could."""
    for name in ("share", "a.b"):
        answer = api.get(f"{TYPES}/openstack/{name}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:tally:problem:not-found")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"size": {"type": "objekt"}}, "size/type"),
        ({"size": {"properties": {"size_gb": {"$ref": "http://example.invalid/a"}}}}, "size/properties/size_gb/$ref"),
        ({"size": {"properties": {"name": {"pattern": "(?=a)"}}}}, "size/properties/name/pattern"),
        ({"size": {"properties": {"egress_gb": {}}}}, "egress_gb"),
        ({"size": {"description": "x" * 70_000}}, "65536"),
        ({"lifecycle": {"a": "destroy"}}, "lifecycle"),
        ({"lifecycle": {"reconcile.delete": "ignore"}}, "reconcile.delete"),
        ({"counters": [5]}, "counters"),
        ({"unknown": {}}, "unknown"),
    ],
)
def test_an_invalid_definition_is_refused_with_its_place(
    api: Client, reporting: Connection, changes: dict[str, Any], told: str
) -> None:
    """400 that says where and why; nothing is stored."""
    answer = api.put(SHARE, DEFINITION | changes)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:tally:problem:invalid-request")
    assert told in answer.json()["detail"]
    row = reporting.execute("select count(*) from reporting.resource_types where resource_type = 'share'").fetchone()
    assert row == (0,)


@pytest.mark.parametrize("address", ["openstack/a.b", "open%20stack/a", "openstack/-a"])
def test_a_name_that_prices_could_not_write_is_refused(api: Client, address: str) -> None:
    """Prices write platform.resource_type."""
    answer = api.put(f"{TYPES}/{address}", DEFINITION)
    assert (answer.status_code, "no name of a" in answer.json()["detail"]) == (400, True)


def test_a_change_that_concerns_stored_events_has_to_be_accepted(api: Client, reporting: Connection) -> None:
    """409 with one line for each way; with a reason it is taken, audited, and the resources follow."""
    api.put(SHARE, DEFINITION)
    sent(api)
    changed = DEFINITION | {
        "size": {"properties": {"size_gb": {"maximum": 1}}},
        "lifecycle": DEFINITION["lifecycle"] | {"share.create.end": {"effect": "create", "state": "on"}},
    }
    refused = api.put(SHARE, changed)
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:tally:problem:refused")
    assert [line for line in refused.json()["reasons"] if "1 stored event" in line] == refused.json()["reasons"][:2]
    taken = api.put(SHARE, changed, accept_invalidation="shares are on or off")
    assert (taken.status_code, taken.json()["rebuilt"]) == (200, 1)
    assert taken.json()["invalidates"] == refused.json()["reasons"][:2]
    resource = api.get("/api/v1/resources", resource_type="share").json()["items"][0]
    assert resource["state"] == "on"
    audited = reporting.execute(
        "select detail ->> 'accepted_because' from reporting.audit_log where action = 'resource_type.define'"
        " order by id desc limit 1"
    ).fetchone()
    assert audited == ("shares are on or off",)


def test_a_reason_is_a_text_that_can_be_kept(api: Client) -> None:
    """A NUL is refused, and so is no reason at all."""
    for reason in ("a\x00b", ""):
        assert api.put(SHARE, DEFINITION, accept_invalidation=reason).status_code == 400
