"""Rejected events over HTTP: found, shown and tried again (rule 7)."""

import pytest

from tests.integration.api_server import Client
from tests.integration.sending import CLOUD, event

REJECTED = "/api/v1/rejected-events"
REPLAY = f"{REJECTED}/replay"
UNKNOWN = "unknown_resource_type"
SHARE = {"lifecycle": {"share.create.end": "create"}}


def rejected(api: Client, *numbers: int, cloud: str = CLOUD) -> None:
    """Send events of a type that nobody knows, one after the other."""
    for number in numbers:
        share = event(str(number), "01T00:00:00", "share.create.end", f"s-{number}", resource_type="share", cloud=cloud)
        assert api.post("/api/v1/events", share).status_code == 400


def mend(api: Client) -> None:
    """Register the type."""
    assert api.put("/api/v1/resource-types/openstack/share", SHARE).status_code == 201


def test_they_are_listed_the_newest_first_page_by_page(api: Client) -> None:
    """Filters hold on every page; a list tells everything but the content."""
    rejected(api, 1, 2, 3)
    rejected(api, 4, cloud="other")
    assert [item["event_id"] for item in api.items(REJECTED, limit=1)] == ["4", "3", "2", "1"]
    assert [item["event_id"] for item in api.items(REJECTED, limit=2, cloud=CLOUD)] == ["3", "2", "1"]
    assert len(api.items(REJECTED, reason=UNKNOWN, platform="openstack", resource_type="share", replayed=False)) == 4
    assert api.items(REJECTED, replayed=True) == api.items(REJECTED, to="2026-01-01T00:00:00Z") == []
    assert len(api.items(REJECTED, **{"from": "2026-01-01T00:00:00Z"})) == 4
    item = api.items(REJECTED)[0]
    assert (item["format"], item["replayed_at"], "raw" in item) == ("tally", None, False)


def test_one_is_shown_with_what_was_sent(api: Client) -> None:
    """Text where it is text, base64 where it is not."""
    rejected(api, 1)
    number = api.items(REJECTED)[0]["id"]
    shown = api.get(f"{REJECTED}/{number}").json()
    assert (shown["encoding"], '"event_id": "1"' in shown["raw"]) == ("text", True)
    assert len(shown["raw"]) == shown["bytes"]
    for unknown in (number + 1, 2**63 - 1):
        assert api.get(f"{REJECTED}/{unknown}").status_code == 404
        assert api.post(f"{REJECTED}/{unknown}/replay").status_code == 404


@pytest.mark.parametrize("number", ["0", "-1", "x", "9223372036854775808", "1.5"])
def test_what_is_no_number_is_refused(api: Client, number: str) -> None:
    """An address that can lead nowhere says so."""
    assert api.get(f"{REJECTED}/{number}").status_code == 400
    assert api.post(f"{REJECTED}/{number}/replay").status_code == 400


def test_all_of_a_reason_are_taken_after_the_mending(api: Client) -> None:
    """First they are rejected again, by reason; then they are taken, of one cloud or of all."""
    rejected(api, 1, 2)
    rejected(api, 3, cloud="other")
    nothing = {"accepted": 0, "deduplicated": 0, "ignored": 0, "rejected": 0, "reasons": {}}
    whole = nothing | {"remaining": 0, "next_after": None}
    assert api.post(REPLAY, {"reason": UNKNOWN}).json() == whole | {"rejected": 3, "reasons": {UNKNOWN: 3}}
    mend(api)
    assert api.post(REPLAY, {"reason": UNKNOWN, "cloud": "other"}).json() == whole | {"accepted": 1}
    assert api.post(REPLAY, {"reason": UNKNOWN, "after": 2**63 - 1}).json() == whole
    assert api.post(REPLAY, {"reason": UNKNOWN}).json() == whole | {"accepted": 2}
    assert len(api.items(REJECTED, replayed=True)) == len(api.items("/api/v1/events")) == 3
    assert api.post(REPLAY, {"reason": UNKNOWN}).json() == whole


def test_one_is_tried_again(api: Client) -> None:
    """Rejected with the reason of now, then accepted, then a duplicate."""
    rejected(api, 1)
    address = f"{REJECTED}/{api.items(REJECTED)[0]['id']}/replay"
    assert api.post(address).json()["reason"] == UNKNOWN
    mend(api)
    assert api.post(address).json() == {"event_id": "1", "status": "accepted"}
    assert api.post(address).json() == {"event_id": "1", "status": "deduplicated"}


def test_a_cloud_event_is_replayed_as_a_cloud_event(api: Client) -> None:
    """What was no CloudEvent stays none, and keeps the format that it came in."""
    sent = {"Content-Type": "application/cloudevents+json"}
    answer = api.request("POST", "/api/v1/events", data=b'{"specversion": "0.3"}', headers=sent)
    assert answer.status_code == 400
    item = api.items(REJECTED)[0]
    assert item["format"] == "cloudevents"
    again = api.post(f"{REJECTED}/{item['id']}/replay").json()
    assert (again["status"], again["detail"]) == ("rejected", answer.json()["detail"])
    assert len(api.items(REJECTED)) == 1


@pytest.mark.parametrize(
    "body", [{}, {"reason": ""}, {"reason": UNKNOWN, "after": -1}, {"reason": UNKNOWN, "limit": 5}, [], None]
)
def test_a_replay_says_of_what(api: Client, body: object) -> None:
    """There is no replay of everything by an empty body."""
    assert api.post(REPLAY, body).status_code in ((415,) if body is None else (400,))
