"""Addresses, bodies and sequences of requests that somebody writes who means harm, or is careless."""

import json
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import requests

from tally.api.auth.authenticator import caller_check
from tally.domain.principal import Role, Scope
from tally.services.credentials import create_credential
from tally.settings import Settings
from tally.store.database import Connection
from tests.integration.api_server import NOW, Client, exact, live_api
from tests.integration.sending import CLOUD, CREATE, dead_letters, send, stored, volume

EVENTS = "/api/v1/events"


@pytest.fixture
def collector(reporting: Connection, reporting_url: str, idle_metering_url: str) -> Iterator[Client]:
    """The collector of one cloud, of a server that asks who calls."""
    scope, end = Scope("openstack", CLOUD), NOW + timedelta(days=1)
    token = create_credential(reporting, "collector", Role.INGEST, scope, end, "test", NOW).token
    check = caller_check(Settings(home=Path("/nowhere")), lambda: NOW)
    with live_api(reporting_url, idle_metering_url, authenticator=check) as api:
        yield Client(api.url, {"Authorization": f"Bearer {token}"})


def plain(api: Client, method: str, path: str, **options: Any) -> requests.Response:
    """Send what the contract does not know."""
    return requests.request(method, api.url + path, timeout=60, allow_redirects=False, **options)


@pytest.mark.parametrize("resource_id", ["a\nb", "a\n", "\n", "a\r\nb", "a\u2028b", "a\tb", "..", "a/../b", "\ufffd"])
def test_whatever_can_be_sent_can_be_asked_for(api: Client, reporting: Connection, resource_id: str) -> None:
    """Also an id with a line break, or one that looks like a way out of its folder."""
    send(reporting, volume("1", "01T00:00:00", CREATE, 10, resource_id=resource_id))
    place = f"/api/v1/resources/{CLOUD}/volume/{quote(resource_id, safe='').replace('..', '%2E%2E')}"
    assert exact(api.get(f"{place}/lifecycle"))["resource_id"] == resource_id
    assert [each["resource_id"] for each in api.items(f"{place}/events")] == [resource_id]


def test_what_is_no_utf_8_is_not_read_as_something_else(api: Client, reporting: Connection) -> None:
    """With substitutes, all such names would be one name, and one that exists."""
    send(reporting, volume("1", "01T00:00:00", CREATE, 10, resource_id="\ufffd", project_id="\ufffd"))
    resource = f"/api/v1/resources/{CLOUD}/volume/%ff/events"
    for path in (resource, f"{EVENTS}?project_id=%ff", f"{EVENTS}?cloud=%ed%a0%80"):
        answer = plain(api, "GET", path)
        assert (answer.status_code, answer.json()["detail"][:24]) == (400, "the address is not UTF-8")


@pytest.mark.parametrize("path", ["/api/v1/events/", "/api/v1/projects/", "/docs/", "/healthz/"])
def test_nobody_is_sent_to_another_address(api: Client, path: str) -> None:
    """A Location would be made of the Host that the client names."""
    answer = plain(api, "GET", path, headers={"Host": "evil.example"})
    assert (answer.status_code, answer.headers.get("Location")) == (404, None)
    assert answer.json()["type"] == "urn:tally:problem:not-found"


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        (EVENTS, "GET, HEAD, POST"),
        ("/api/v1/clouds/a/b", "PUT"),
        ("/api/v1/resource-types/a/b", "GET, HEAD, PUT"),
        ("/healthz", "GET, HEAD"),
    ],
)
def test_a_method_that_an_address_does_not_take_is_told_which_it_takes(api: Client, path: str, methods: str) -> None:
    """All of them."""
    for method in ("OPTIONS", "TRACE", "DELETE"):
        answer = plain(api, method, path)
        assert (answer.status_code, answer.headers["Allow"]) == (405, methods)
        assert answer.json()["type"] == "urn:tally:problem:method-not-allowed"


def test_head_is_get_without_the_content(api: Client) -> None:
    """RFC 9110: whatever can be read can be asked for its headers, and whatever cannot says which methods it takes."""
    for path in (EVENTS, "/healthz", "/metrics", "/docs", f"{EVENTS}?limit=0", "/api/v1/resources/a/b/c/lifecycle"):
        read, asked = plain(api, "GET", path), plain(api, "HEAD", path)
        assert (asked.status_code, asked.headers["Content-Type"]) == (read.status_code, read.headers["Content-Type"])
        assert asked.content == b""
        assert int(asked.headers["Content-Length"]) > 0
    refused = plain(api, "HEAD", "/internal/sync/os-prod-eu1")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "POST")


def test_a_statement_that_takes_too_long_is_broken_off(
    reporting: Connection, reporting_url: str, idle_metering_url: str
) -> None:
    """503, after a time that is a setting: its connection is for others."""
    with live_api(reporting_url, idle_metering_url, api_statement_seconds=1) as client, reporting.transaction():
        reporting.execute("lock table reporting.clouds in access exclusive mode")
        answer = client.get("/api/v1/clouds")
    assert (answer.status_code, answer.json()["type"]) == (503, "urn:tally:problem:unavailable")
    assert "took too long" in answer.json()["detail"]


@pytest.mark.parametrize("number", ["9" * 200, "9" * 100_000, "-" + "9" * 5000, "1e999999999", "1e-999999999"])
def test_a_number_without_end_is_out_of_range(api: Client, reporting: Connection, number: str) -> None:
    """And told as such, not as a limit of Python; its neighbours stay."""
    good = volume("good", "01T00:00:00", CREATE, 10)
    bad = '{"event_id": "bad", "payload": {"x": ' + number + "}}"
    body = f"[{bad}, {json.dumps(good)}]".encode()
    results = api.request("POST", EVENTS, data=body).json()["results"]
    assert [result.get("reason", result["status"]) for result in results] == ["number_out_of_range", "accepted"]
    assert stored(reporting) == ["good"]


CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "e-1",
    "source": f"/openstack/{CLOUD}",
    "subject": "volume/v-1",
    "type": CREATE,
    "time": "2026-03-01T00:00:00Z",
    "projectid": "p-1",
}


@pytest.mark.parametrize("fault", [{}, {"specversion": "0.3"}, {"subject": "v-1"}, {"data": []}, {"time": None}])
def test_a_cloud_event_of_another_cloud_is_forbidden_also_if_it_is_none(
    collector: Client, reporting: Connection, fault: dict[str, Any]
) -> None:
    """Nothing of it is kept, as of an event in the form of Tally."""
    sent = CLOUD_EVENT | fault | {"source": "/openstack/os-other"}
    headers = {"Content-Type": "application/cloudevents+json"}
    answer = collector.request("POST", EVENTS, json_body=sent, headers=headers)
    assert (answer.status_code, answer.json()["event_id"]) == (403, "e-1")
    assert (stored(reporting), dead_letters(reporting)) == ([], [])


def test_a_cloud_event_that_is_none_is_kept_under_its_names(collector: Client, reporting: Connection) -> None:
    """So that its sender knows which one it was, and whoever mends it finds it."""
    sent = [CLOUD_EVENT | {"time": "yesterday"}, CLOUD_EVENT, {"source": 5, "id": "e-2"}, "text"]
    headers = {"Content-Type": "application/cloudevents-batch+json"}
    results = collector.request("POST", EVENTS, json_body=sent, headers=headers).json()["results"]
    assert [(result["event_id"], result["status"]) for result in results] == [
        ("e-1", "rejected"),
        ("e-1", "accepted"),
        ("e-2", "rejected"),
        ("", "rejected"),
    ]
    assert dead_letters(reporting) == [
        (CLOUD, "", "invalid_event"),
        (CLOUD, "e-1", "invalid_timestamp"),
        (CLOUD, "e-2", "invalid_event"),
    ]
