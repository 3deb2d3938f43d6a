"""Files of notifications: every form is read, each message keeps its bytes, and broken ones lose no neighbour."""

import json
from io import BytesIO
from itertools import islice
from typing import Any

import pytest

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import MAX_EVENT_BYTES
from tally.providers.openstack.notifications import Notification, map_notification, read_notifications

FIRST: dict[str, Any] = {"event_type": "image.create", "payload": {"id": "ä", "size": [1, 2]}}
SECOND: dict[str, Any] = {"oslo.version": "2.0", "oslo.message": "{}"}


def read(text: str | bytes) -> list[Notification]:
    return list(read_notifications(BytesIO(text if isinstance(text, bytes) else text.encode())))


def messages(text: str) -> list[Any]:
    return [message for _, message in read(text)]


@pytest.mark.parametrize("indent", [None, 1, 4])
@pytest.mark.parametrize("before", ["", "\n\n  "])
def test_a_list_an_object_and_named_messages_are_read_however_they_are_written(indent: int | None, before: str) -> None:
    both = [FIRST, SECOND]
    assert messages(before + json.dumps(both, indent=indent)) == both
    assert messages(before + json.dumps({"one": FIRST, "two": SECOND}, indent=indent)) == both
    assert messages(before + json.dumps(FIRST, indent=indent, ensure_ascii=False)) == [FIRST]
    assert messages(before + json.dumps(FIRST, indent=indent) + "\n" + json.dumps(SECOND, indent=indent)) == both


def test_json_lines_are_read_with_blank_lines_between() -> None:
    assert messages(f"{json.dumps(FIRST)}\r\n\n{json.dumps(SECOND)}\n\n") == [FIRST, SECOND]


def test_nothing_is_read_from_an_empty_file() -> None:
    assert read("") == read(" \n\n") == read("[]") == read("[ ]\n") == []


def test_each_message_keeps_its_own_bytes() -> None:
    odd = b'{"event_type":  "image.create", "payload": 1.50}'
    assert read(b"[ " + odd + b" ,{} ]")[0].raw == odd
    assert read(b'{"name" : ' + odd + b', "other":{}}')[0].raw == odd
    assert read(b"  " + odd + b"\n{}\n")[0].raw == odd


def test_a_broken_line_is_given_as_it_is_and_its_neighbours_are_read() -> None:
    good = json.dumps(FIRST)
    for broken in ('{"event_type":', '{"a": NaN}', '{"event_type": "a", "event_type": "b"}', "no json", "[1,"):
        first, middle, last = read(f"{good}\n{broken}\n{good}\n")
        assert first.message == last.message == FIRST
        assert middle.raw == broken.encode()
        with pytest.raises(InvalidEvent):
            map_notification(middle.message, "cloud")


def test_a_broken_first_line_does_not_turn_lines_into_one_document() -> None:
    broken, good = read('{"event_type": \n' + json.dumps(FIRST))
    assert isinstance(broken.message, InvalidEvent)
    assert good.message == FIRST


def test_a_message_beyond_the_limit_is_given_as_too_large() -> None:
    huge = json.dumps({"event_type": "x", "payload": "y" * MAX_EVENT_BYTES})
    large, good = read(f"{huge}\n{json.dumps(FIRST)}")
    assert isinstance(large.message, InvalidEvent)
    assert large.message.reason == "too_large"
    assert good.message == FIRST


def test_a_collection_may_be_larger_than_one_message() -> None:
    one = {"event_type": "x", "payload": "y" * (MAX_EVENT_BYTES // 2)}
    assert messages(json.dumps({"a": one, "b": one, "c": one})) == [one, one, one]
    assert messages(json.dumps([one, one, one])) == [one, one, one]


@pytest.mark.parametrize(
    "text", [b"event_id;state\n1;active\n", b'[{"event_type": "x"},', b'{\n "event_type":', b"[\xff]", b"[" * 100_000]
)
def test_a_file_that_is_no_json_is_refused_whole(text: bytes) -> None:
    with pytest.raises(InvalidInput, match="neither JSON lines nor JSON"):
        read(text)


def test_json_lines_are_streamed() -> None:
    """The reader asks for no more lines than it gives messages, so that a file may be larger than memory."""

    class Endless(BytesIO):
        def __next__(self) -> bytes:
            return json.dumps(FIRST).encode() + b"\n"

        def read(self, _size: int | None = -1, /) -> bytes:
            raise AssertionError("the whole file was asked for")

    assert [message for _, message in islice(read_notifications(Endless()), 1000)] == [FIRST] * 1000
