"""Whatever is sent to the event sink: a documented answer, never a 5xx; refused whole, or each input stored or kept.

Client holds every answer to the contract, which documents no 500; a 503 would mean that an input broke the database.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tally.store.database import Connection
from tests.integration.api_server import Client
from tests.integration.sending import CREATE, DELETE, RESIZE, volume

EVENTS = "/api/v1/events"
TYPES = ("application/json", "application/cloudevents+json", "application/cloudevents-batch+json")

fuzzed = settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**40), max_value=10**40)
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["\0", "\ud800", "x" * 513, "2026-03-01T00:00:00Z", "2026-13-01T00:00:00Z", "volume", "", " "])
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (*volume("e", "01T00:00:00", CREATE, 1), "specversion", "strange", "")
PAYLOAD = ("size", "state", "usage", "note")
numbers = count(1)


@st.composite
def events(draw: st.DrawFn) -> dict[str, Any]:
    """An event that is valid but for what was done to it."""
    kind = draw(st.sampled_from((CREATE, RESIZE, DELETE, "volume.vanish")))
    sent = volume(f"e-{next(numbers)}", "01T00:00:00", kind, draw(st.integers(-1, 100)))
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=2)):
        sent[name] = draw(values)
    for name in draw(st.lists(st.sampled_from(PAYLOAD), max_size=2)):
        if isinstance(sent["payload"], dict):
            sent["payload"][name] = draw(values)
    for name in draw(st.lists(st.sampled_from(FIELDS), max_size=1)):
        sent.pop(name, None)
    return sent


@st.composite
def mangled(draw: st.DrawFn) -> bytes:
    """The text of a batch with some bytes of it replaced, removed or repeated."""
    body = bytearray(json.dumps(draw(st.lists(events(), min_size=1, max_size=3))).encode())
    for _ in range(draw(st.integers(1, 3))):
        start = draw(st.integers(0, len(body)))
        end = draw(st.integers(start, min(len(body), start + 30)))
        body[start:end] = draw(st.binary(max_size=4) | st.just(bytes(body[start:end]) * 2))
    return bytes(body)


def stored(reporting: Connection) -> tuple[int, int]:
    """How many events and dead letters there are."""
    row = reporting.execute(
        "select (select count(*) from reporting.events), (select count(*) from reporting.rejected_events)"
    ).fetchone()
    assert row is not None
    return row


def send(api: Client, reporting: Connection, body: bytes, media_type: str = TYPES[0]) -> None:
    """Send a body, and account for all of it."""
    events_before, letters_before = stored(reporting)
    response = api.request("POST", EVENTS, data=body, headers={"Content-Type": media_type})
    assert response.status_code < 500
    events_after, letters_after = stored(reporting)
    results = results_of(response)
    accepted = sum(result["status"] == "accepted" for result in results)
    rejected = [result for result in results if result["status"] == "rejected"]
    assert events_after - events_before == accepted
    assert letters_after - letters_before <= len(rejected)  # the same again is the same dead letter
    for result in rejected:
        kept = reporting.execute(
            "select count(*) from reporting.rejected_events where event_id = %s and reason = %s",
            [result["event_id"], result["reason"]],
        ).fetchone()
        assert kept != (0,), result


def results_of(response: requests.Response) -> Sequence[Mapping[str, str]]:
    """What became of each input; nothing of a body that was refused whole."""
    content = response.json()
    if response.status_code in (200, 201):
        results: Sequence[Mapping[str, str]] = content.get("results", [content])
        return results
    return [{**content, "status": "rejected"}] if content["type"] == "urn:tally:problem:invalid-event" else []


def test_arbitrary_bytes(api: Client, reporting: Connection) -> None:
    """Most are no JSON and refused whole; some are, and become dead letters."""

    @fuzzed
    @given(st.binary(max_size=60) | st.text(alphabet='[]{}",:0e-.\\u d8null', max_size=30).map(str.encode))
    def holds(body: bytes) -> None:
        send(api, reporting, body)

    holds()


def test_arbitrary_json_in_every_format(api: Client, reporting: Connection) -> None:
    """Alone, and in a batch beside a valid event, which is always taken, whatever is no JSON there."""

    @fuzzed
    @given(values, st.sampled_from(TYPES))
    def holds(value: Any, media_type: str) -> None:
        send(api, reporting, json.dumps(value).encode(), media_type)
        good = volume(f"e-{next(numbers)}", "01T00:00:00", CREATE, 1)
        before, _ = stored(reporting)
        send(api, reporting, json.dumps([value, good]).encode())
        assert stored(reporting)[0] == before + 1

    holds()


def test_events_with_something_wrong(api: Client, reporting: Connection) -> None:
    """Fields that are missing, strange or of another type."""

    @fuzzed
    @given(st.lists(events(), min_size=1, max_size=3))
    def holds(batch: list[dict[str, Any]]) -> None:
        send(api, reporting, json.dumps(batch).encode())
        send(api, reporting, json.dumps(batch[0]).encode())

    holds()


def test_texts_with_bytes_changed(api: Client, reporting: Connection) -> None:
    """As a faulty line or a faulty sender makes them."""

    @fuzzed
    @given(mangled())
    def holds(body: bytes) -> None:
        send(api, reporting, body)

    holds()
