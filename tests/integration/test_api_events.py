"""The event sink over HTTP: rules 1 to 7 at the door, and scenarios S03 to S05, S10 and S11."""

import json
from datetime import timedelta
from typing import Any

import pytest

from tally.domain.instants import format_instant
from tally.store.database import Connection
from tests.integration.api_server import NOW, Client, exact, live_api
from tests.integration.sending import CREATE, RESIZE, event, volume

EVENTS = "/api/v1/events"


def statuses(client: Client, *events: dict[str, Any]) -> list[str]:
    """What became of each event of a batch."""
    return [result["status"] for result in client.post(EVENTS, list(events)).json()["results"]]


def test_a_single_event_is_created_then_known(api: Client) -> None:
    """201 for what is new, 200 for what was taken before."""
    sent = volume("e-1", "01T00:00:00", CREATE, 100)
    first, again = api.post(EVENTS, sent), api.post(EVENTS, sent)
    assert (first.status_code, first.json()) == (201, {"event_id": "e-1", "status": "accepted"})
    assert (again.status_code, again.json()) == (200, {"event_id": "e-1", "status": "deduplicated"})


def test_a_single_invalid_event_is_told_and_kept(api: Client, reporting: Connection) -> None:
    """400 with the reason; the raw bytes stay as a dead letter."""
    response = api.post(EVENTS, event("e-1", "01T00:00:00", "volume.vanish.end"))
    problem = response.json()
    assert response.status_code == 400
    assert problem["type"] == "urn:tally:problem:invalid-event"
    assert (problem["reason"], problem["event_id"]) == ("unknown_event_type", "e-1")
    assert reporting.execute("select reason from reporting.rejected_events").fetchall() == [("unknown_event_type",)]


def test_one_bad_event_never_loses_its_neighbours(api: Client) -> None:
    """A batch is processed event by event, and answers in its order."""
    answer = api.post(
        EVENTS,
        [volume("e-1", "01T00:00:00", CREATE, 100), {"event_id": "bad"}, volume("e-2", "02T00:00:00", RESIZE, 200)],
    )
    assert answer.status_code == 200
    body = answer.json()
    assert [result["status"] for result in body["results"]] == ["accepted", "rejected", "accepted"]
    assert (body["accepted"], body["deduplicated"], body["rejected"]) == (2, 0, 1)


def test_s03_a_batch_with_duplicates_stores_each_event_once_and_projects_it(api: Client, reporting: Connection) -> None:
    """S03: 2 stored already, 1 twin in the batch, 2 new: accepted 2, deduplicated 3; the replay accepts nothing."""
    old = [volume("e-1", "01T00:00:00", CREATE, 1, resource_id="v-1"),
           volume("e-2", "01T00:00:00", CREATE, 2, resource_id="v-2")]
    new = [volume("e-3", "01T00:00:00", CREATE, 3, resource_id="v-3"),
           volume("e-4", "01T00:00:00", CREATE, 4, resource_id="v-4")]
    assert statuses(api, *old) == ["accepted"] * 2
    batch = [*old, *new, new[0]]
    assert statuses(api, *batch) == ["deduplicated"] * 2 + ["accepted"] * 2 + ["deduplicated"]
    assert statuses(api, *batch) == ["deduplicated"] * 5
    rows = reporting.execute("select resource_id from reporting.current_resources order by 1").fetchall()
    assert rows == [("v-1",), ("v-2",), ("v-3",), ("v-4",)]


def test_s04_an_event_id_belongs_to_its_cloud(api: Client) -> None:
    """S04: the same id from two clouds is two events."""
    one = volume("12345", "01T00:00:00", CREATE, 1)
    assert statuses(api, one, one | {"cloud": "os-test"}) == ["accepted", "accepted"]


def test_s05_an_event_id_with_other_content_is_a_conflict(api: Client, reporting: Connection) -> None:
    """S05: it is never stored twice, whatever differs."""
    first = volume("X", "10T10:00:00", RESIZE, 200)
    assert statuses(api, volume("c", "01T00:00:00", CREATE, 100), first) == ["accepted"] * 2
    response = api.post(EVENTS, volume("X", "10T10:05:00", RESIZE, 200))
    assert (response.status_code, response.json()["reason"]) == (400, "event_id_conflict")
    assert reporting.execute("select count(*) from reporting.events where event_id = 'X'").fetchone() == (1,)


@pytest.mark.parametrize(
    ("ahead", "status"),
    [(timedelta(minutes=3), 201), (timedelta(days=2), 400), (timedelta(days=65_000), 400)],
)
def test_s10_a_clock_may_be_a_little_fast(api: Client, ahead: timedelta, status: int) -> None:
    """S10: three minutes are taken; two days and two centuries are kept aside, and counted."""
    sent = volume("e-1", "01T00:00:00", CREATE, 1) | {"timestamp": format_instant(NOW + ahead)}
    response = api.post(EVENTS, sent)
    assert response.status_code == status
    if status == 400:
        assert response.json()["reason"] == "clock_skew"
        assert 'events_rejected_total{cloud="os-prod-eu1",reason="clock_skew"} 1.0' in api.get("/metrics").text


def test_s11_age_never_rejects_an_event(api: Client) -> None:
    """S11: one of six months ago is as good as any."""
    old = volume("e-1", "01T00:00:00", CREATE, 1) | {"timestamp": format_instant(NOW - timedelta(days=180))}
    assert api.post(EVENTS, old).status_code == 201


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[{}", b'{"a": "\xff"}', b"[1,]", b"nothing", b"[]]", b'{"a":1}{"b":2}'],
)
def test_a_body_that_is_no_json_is_refused_whole_and_not_kept(api: Client, reporting: Connection, body: bytes) -> None:
    """The sender keeps it: nothing is stored, not even a dead letter."""
    response = api.request("POST", EVENTS, data=body)
    assert (response.status_code, response.json()["type"]) == (400, "urn:tally:problem:invalid-request")
    assert reporting.execute("select count(*) from reporting.rejected_events").fetchone() == (0,)


def test_what_harms_is_rejected_alone_and_kept(api: Client, reporting: Connection) -> None:
    """Duplicate keys, NUL, huge numbers, deep nesting: rejected with a reason each, and the neighbour is taken."""
    good = json.dumps(volume("good", "01T00:00:00", CREATE, 1))
    bad = [
        '{"event_id": "a", "event_id": "b"}',
        json.dumps(event("nul", "01T00:00:00", CREATE, payload={"a": "\0"})),
        json.dumps(event("huge", "01T00:00:00", CREATE)).replace('"payload": {}', '"payload": {"a": 1e999999}'),
        json.dumps(event("deep", "01T00:00:00", CREATE)).replace("{}", '{"a":' * 100 + "1" + "}" * 100),
        json.dumps(event("digits", "01T00:00:00", CREATE)).replace("{}", '{"a":' + "9" * 5000 + "}"),
        '"just text"',
        "null",
    ]
    body = f"[{','.join([*bad, good])}]".encode()
    results = api.request("POST", EVENTS, data=body).json()["results"]
    assert [result["status"] for result in results] == ["rejected"] * len(bad) + ["accepted"]
    assert reporting.execute("select count(*) from reporting.rejected_events").fetchone() == (len(bad),)


def test_a_body_beyond_the_limit_is_refused_and_nothing_is_kept(reporting_url: str, idle_metering_url: str) -> None:
    """413, told beforehand or found while reading."""
    with live_api(reporting_url, idle_metering_url, api_max_body_bytes=1024) as client:
        body = json.dumps([volume(f"e-{n}", "01T00:00:00", CREATE, 1) for n in range(20)]).encode()
        assert client.request("POST", EVENTS, data=body).status_code == 413
        chunks: Any = (body[start : start + 100] for start in range(0, len(body), 100))
        assert client.request("POST", EVENTS, data=chunks).status_code == 413
        assert client.items(EVENTS) == []


def test_a_batch_beyond_the_limit_is_refused_and_nothing_is_kept(reporting_url: str, idle_metering_url: str) -> None:
    """400 that says how many are taken."""
    with live_api(reporting_url, idle_metering_url, api_max_batch_events=2) as client:
        batch = [volume(f"e-{n}", "01T00:00:00", CREATE, 1) for n in range(3)]
        response = client.post(EVENTS, batch)
        assert response.status_code == 400
        assert "2" in response.json()["detail"]
        assert client.items(EVENTS) == []


@pytest.mark.parametrize(
    "headers", [{"Content-Type": "text/plain"}, {"Content-Type": ""}, {"Content-Encoding": "gzip"}]
)
def test_other_media_types_are_refused(api: Client, headers: dict[str, str]) -> None:
    """415: nothing is guessed."""
    assert api.request("POST", EVENTS, data=b"{}", headers=headers).status_code == 415


def test_numbers_stay_what_they_were(api: Client) -> None:
    """A decimal comes back digit by digit; no binary float touches it."""
    sent = json.dumps(event("e-1", "01T00:00:00", CREATE)).replace("{}", '{"note": 0.10000000000000000000001}')
    assert api.request("POST", EVENTS, data=sent.encode()).status_code == 201
    assert '"note": 0.10000000000000000000001' in api.get(EVENTS).text


CLOUD_EVENT = {
    "specversion": "1.0",
    "id": "e-1",
    "source": "/openstack/os-prod-eu1",
    "type": CREATE,
    "time": "2026-03-01T00:00:00Z",
    "subject": "volume/v-1",
    "projectid": "p-1",
    "data": {"size": {"size_gb": 100}},
}


def test_a_cloud_event_is_the_event_that_it_says(api: Client) -> None:
    """The same event in either form is one event."""
    headers = {"Content-Type": "application/cloudevents+json"}
    taken = api.request("POST", EVENTS, json_body=CLOUD_EVENT, headers=headers)
    assert taken.status_code == 201
    assert statuses(api, volume("e-1", "01T00:00:00", CREATE, 100)) == ["deduplicated"]


def test_a_batch_of_cloud_events_is_taken_event_by_event(api: Client, reporting: Connection) -> None:
    """What cannot be mapped is kept in its own form, to be replayed."""
    headers = {"Content-Type": "application/cloudevents-batch+json; charset=utf-8"}
    batch = [CLOUD_EVENT, CLOUD_EVENT | {"id": "e-2", "source": "nowhere"}, CLOUD_EVENT]
    results = api.request("POST", EVENTS, json_body=batch, headers=headers).json()["results"]
    assert [result["status"] for result in results] == ["accepted", "rejected", "deduplicated"]
    assert reporting.execute("select format from reporting.rejected_events").fetchall() == [("cloudevents",)]


def test_answers_are_exact_json(api: Client) -> None:
    """Reading an answer with decimals gives back what was sent."""
    api.post(EVENTS, volume("e-1", "01T00:00:00", CREATE, 100))
    assert exact(api.get(EVENTS))["items"][0]["payload"] == {"size": {"size_gb": 100}}
