"""Reading events: what is taken, what is refused and why, and when two events are the same (rules 1, 2 and 5)."""

import hashlib
import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.errors import InvalidEvent
from tally.domain.event import (
    MAX_DEPTH,
    MAX_EVENT_BYTES,
    MAX_TEXT_BYTES,
    TEXT_FIELDS,
    canonical_json,
    content_hash,
    decode_event,
    decode_json,
    encode_event,
    parse_event,
    plain_json,
)
from tally.domain.instants import format_instant
from tests.histories import as_sent, as_sent_again, histories, tally_event
from tests.model import Record

EVENT: dict[str, Any] = {
    "event_id": "e-1",
    "timestamp": "2026-03-01T00:00:00Z",
    "event_type": "volume.create.end",
    "platform": "openstack",
    "cloud": "os-prod-eu1",
    "resource_type": "volume",
    "resource_id": "v-1",
    "project_id": "p-1",
    "payload": {"size": {"size_gb": 100}},
}


def text(**changes: Any) -> bytes:
    """The JSON text of an event with some fields changed."""
    return json.dumps(EVENT | changes).encode()


def with_payload(payload: str) -> bytes:
    """The JSON text of an event with a payload written by hand."""
    return text(payload="@").replace(b'"@"', payload.encode())


def reason(raw: bytes) -> str:
    """Why a text is refused."""
    with pytest.raises(InvalidEvent) as refusal:
        decode_event(raw)
    return refusal.value.reason


def test_an_event_is_read_field_by_field() -> None:
    """Rule 2: the instant is UTC; source defaults to the collector."""
    event = decode_event(text(timestamp="2026-03-01T01:00:00.123456789+01:00"))
    assert event.timestamp == datetime(2026, 3, 1, microsecond=123456, tzinfo=UTC)
    assert event.resource == ("os-prod-eu1", "volume", "v-1")
    assert not event.synthetic


def test_numbers_are_decimals_never_floats() -> None:
    """Rule 2: 0.1 is a tenth."""
    event = decode_event(with_payload('{"a": 0.1, "b": 1e3, "c": 7}'))
    assert event.payload == {"a": Decimal("0.1"), "b": Decimal(1000), "c": 7}
    assert [type(value) for value in event.payload.values()] == [Decimal, Decimal, int]


@pytest.mark.parametrize(
    "timestamp", ["2026-03-01T00:00:00", "2026-02-30T00:00:00Z", "yesterday", "", None, 1772323200]
)
def test_a_timestamp_without_zone_or_meaning_is_refused(timestamp: Any) -> None:
    """Rule 2: nothing is guessed."""
    assert reason(text(timestamp=timestamp)) == "invalid_timestamp"


@pytest.mark.parametrize("name", TEXT_FIELDS)
@pytest.mark.parametrize(
    "value", ["", None, 5, ["a"], "x" * (MAX_TEXT_BYTES + 1), "é" * (MAX_TEXT_BYTES // 2 + 1), "a\0b"]
)
def test_every_text_field_is_a_text_of_bounded_length(name: str, value: Any) -> None:
    """Keys go into one index entry, and PostgreSQL stores no NUL."""
    assert reason(text(**{name: value})) == "invalid_event"


@pytest.mark.parametrize("name", TEXT_FIELDS)
def test_the_longest_text_is_taken(name: str) -> None:
    """The limit counts bytes, and includes itself."""
    assert getattr(decode_event(text(**{name: "é" * (MAX_TEXT_BYTES // 2)})), name)


def test_a_missing_field_is_named() -> None:
    """A sender learns what is wrong."""
    incomplete = {key: value for key, value in EVENT.items() if key != "resource_id"}
    with pytest.raises(InvalidEvent, match="resource_id"):
        parse_event(incomplete)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"", "invalid_json"),
        (b"{", "invalid_json"),
        (b"\xff\xfe", "invalid_json"),
        (b'{"a": "\xed\xa0\x80"}', "invalid_json"),
        (b'{"a": NaN}', "invalid_json"),
        (b'{"a": Infinity}', "invalid_json"),
        (b'{"a": -Infinity}', "invalid_json"),
        (b'{"a": 1, "a": 1}', "invalid_json"),
        (b'{"a": "\x00"}', "invalid_json"),
        (b"[" * 100_000, "invalid_json"),
        (b'{"a":' * 20_000, "invalid_json"),
        (b'{"a": ' + b"9" * 5000 + b"}", "number_out_of_range"),
        (b" " * (MAX_EVENT_BYTES + 1), "too_large"),
        (b"[]", "invalid_event"),
        (b"null", "invalid_event"),
        (b'"text"', "invalid_event"),
        (text(source="rumour"), "invalid_event"),
        (text(source=None), "invalid_event"),
        (text(payload=[]), "invalid_event"),
        (text(payload="{}"), "invalid_event"),
        (text(extra=1), "invalid_event"),
        (with_payload(r'{"a": "\u0000"}'), "invalid_event"),
        (with_payload(r'{"\u0000": 1}'), "invalid_event"),
        (with_payload(r'{"a": "\ud800"}'), "invalid_event"),
        (with_payload(r'{"a": [{"\udc00": 1}]}'), "invalid_event"),
        (with_payload('{"a": 1, "a": 2}'), "invalid_json"),
        (with_payload('{"a": 1e101}'), "number_out_of_range"),
        (with_payload('{"a": 123e99}'), "number_out_of_range"),
        (with_payload('{"a": 1e-101}'), "number_out_of_range"),
        (with_payload('{"a": 1e999999999}'), "number_out_of_range"),
        (with_payload('{"a": 1e99999999999999999999}'), "number_out_of_range"),
        (with_payload('{"a": -1' + "0" * 200 + "}"), "number_out_of_range"),
        (with_payload('{"a": 0.' + "0" * 100 + "1}"), "number_out_of_range"),
    ],
    ids=lambda value: value if isinstance(value, str) else repr(value[-40:]),
)
def test_what_is_no_event_is_refused_with_a_stable_reason(raw: bytes, expected: str) -> None:
    """Rule 4: whatever a sender writes becomes a reason, never a crash."""
    assert reason(raw) == expected


def test_depth_is_limited() -> None:
    """A payload may nest so deep and no deeper, whichever way the depth is counted."""

    def nested(depth: int) -> bytes:
        return with_payload('{"a":' * depth + "1" + "}" * depth)

    assert decode_event(nested(MAX_DEPTH)).payload
    assert reason(nested(MAX_DEPTH + 1)) == "invalid_event"
    assert decode_event(with_payload('{"a": [' + "[]," * 100 + "[]]}")).payload


def test_the_largest_event_is_taken() -> None:
    """The limit includes itself."""
    raw = text(payload={"note": ""})
    raw = raw.replace(b'"note": ""', b'"note": "' + b"x" * (MAX_EVENT_BYTES - len(raw)) + b'"')
    assert len(raw) == MAX_EVENT_BYTES
    assert decode_event(raw).payload


def test_texts_beyond_ascii_are_taken() -> None:
    """Emoji arrive as they are or as a pair of escapes, and are the same."""
    assert content_hash(decode_event(with_payload(r'{"a": "\ud83d\ude00"}'))) == content_hash(
        decode_event(with_payload('{"a": "\N{GRINNING FACE}"}'))
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", "1.0"),
        ("1", "1e0"),
        ("100", "1E+2"),
        ("0", "-0.0"),
        ("0.5", "5e-1"),
        ("2.50", "2.5"),
        ("1" + "0" * 30, "1e30"),
    ],
)
def test_equal_numbers_are_equal_content(one: str, other: str) -> None:
    """Rule 1: numbers are compared by value."""
    assert content_hash(decode_event(with_payload(f'{{"a": {one}}}'))) == content_hash(
        decode_event(with_payload(f'{{"a": {other}}}'))
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1", '"1"'),
        ("1", "true"),
        ("0", "false"),
        ("0", "null"),
        ("1.5", '["#", "1.5"]'),
        ("1.5", '"1.5"'),
        ("1.5", '{"": "1.5"}'),
        ("[]", "{}"),
        ("1", "1." + "0" * 40 + "1"),
        ("9999999999999999999999999999.1", "9999999999999999999999999999.2"),
    ],
)
def test_other_values_are_other_content(one: str, other: str) -> None:
    """Rule 1: what differs, however little, is a conflict."""
    assert content_hash(decode_event(with_payload(f'{{"a": {one}}}'))) != content_hash(
        decode_event(with_payload(f'{{"a": {other}}}'))
    )


def test_equal_instants_are_equal_content() -> None:
    """Rule 1: one instant is the same in every zone."""
    assert content_hash(decode_event(text(timestamp="2026-03-01T00:00:00Z"))) == content_hash(
        decode_event(text(timestamp="2026-03-01T05:30:00.000+05:30"))
    )


@pytest.mark.parametrize("name", [*sorted(set(TEXT_FIELDS) - {"cloud", "event_id"}), "source", "timestamp", "payload"])
def test_every_field_counts_as_content(name: str) -> None:
    """Rule 1: any field that differs is a conflict; cloud and event_id are the identity itself."""
    other = {"source": "reconciliation", "timestamp": "2026-03-01T00:00:00.000001Z", "payload": {}}.get(name, "other")
    assert content_hash(decode_event(text(**{name: other}))) != content_hash(decode_event(text()))


def test_a_synthetic_event_is_the_same_at_another_instant() -> None:
    """Rule 9: what reconciliation observes again is a duplicate whatever its timestamp; anything else is a conflict."""
    seen = decode_event(text(source="reconciliation", timestamp="2026-03-20T10:00:00Z"))
    again = decode_event(text(source="reconciliation", timestamp="2026-03-20T10:10:00Z"))
    other = decode_event(text(source="reconciliation", timestamp="2026-03-20T10:10:00Z", project_id="other"))
    assert content_hash(again) == content_hash(seen)
    assert content_hash(other) != content_hash(seen)


@given(histories())
def test_respelled_events_are_the_same_events(history: list[Record]) -> None:
    """Rule 1: another zone, other zeros, another order of keys change nothing."""
    for record in history:
        event = tally_event(("c", "thing", "1"), record)
        assert content_hash(decode_event(as_sent(event))) == content_hash(decode_event(as_sent_again(event)))


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.decimals(-(10**9), 10**9, places=6) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
        max_leaves=8,
    )
)
def test_what_is_written_is_read_again(value: Any) -> None:
    """encode_event and decode_event are each other's inverse, or both refuse."""
    try:
        event = parse_event(EVENT | {"payload": {"value": value}})
    except InvalidEvent:
        return
    assert decode_event(encode_event(event)) == event


def test_an_event_with_a_float_or_without_a_zone_is_not_written() -> None:
    """Rule 2 holds for events that a mapper makes, too."""
    good = decode_event(text())
    for bad in ({"payload": {"a": 0.1}}, {"timestamp": datetime(2026, 3, 1)}):  # noqa: DTZ001 - that is the point
        fields = {name: getattr(good, name) for name in ("timestamp", "payload", "source", *TEXT_FIELDS)} | bad
        with pytest.raises(InvalidEvent):
            encode_event(type(good)(**fields))


@pytest.mark.parametrize("number", ["NaN", "Infinity"])
def test_a_decimal_that_is_not_finite_is_refused(number: str) -> None:
    """No sum survives it."""
    with pytest.raises(InvalidEvent, match="finite"):
        parse_event(EVENT | {"payload": {"a": Decimal(number)}})


def test_decoding_json_alone_knows_the_same_limits() -> None:
    """Mappers read their input through the same door."""
    assert decode_json(b'{"a": 1.50}') == {"a": Decimal("1.50")}
    with pytest.raises(InvalidEvent):
        decode_json(b'{"a": 1e400}')


def test_canonical_json_sorts_keys_at_every_depth() -> None:
    """The order of keys is no content."""
    assert canonical_json({"b": {"d": 1, "c": 2}, "a": []}) == canonical_json({"a": [], "b": {"c": 2, "d": 1}})


def test_the_hash_is_that_of_the_canonical_json_of_all_fields() -> None:
    """It stays the same from version to version: an event sent again years later is still a duplicate."""
    event = decode_event(text(payload={"b": [1.50, 'ü\n"\\'], "a": None}, project_id='p"1\\\x7f'))
    fields = [
        "2026-03-01T00:00:00Z",
        event.event_type,
        event.platform,
        event.resource_type,
        event.resource_id,
        event.project_id,
        event.source,
        event.payload,
    ]
    assert format_instant(event.timestamp) == fields[0]
    assert content_hash(event) == hashlib.sha256(canonical_json(fields).encode()).digest()
    assert content_hash(event, canonical_json(event.payload)) == content_hash(event)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_json_without_decimals_is_its_own_canonical_form(value: Any) -> None:
    """What is stored of a payload is then what is hashed of it; with decimals, it is not JSON that others read."""
    assert plain_json(value) == canonical_json(value)
    assert json.loads(canonical_json(value)) == value
    assert plain_json([value, Decimal("0.5")]) is None
