"""Splitting the body of a request into its inputs: each as if it came alone, none lost by its neighbours (rule 4)."""

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import MAX_DEPTH, MAX_EVENT_BYTES, Element, decode_element, decode_json, split_batch

GOOD = '{"event_id": "1", "payload": {"a": [1, 2.50, "]}{[", "\\"\\\\", "ü"]}}'

# Inputs that have the form of JSON and hold what no event may hold.
BAD = [
    '{"a": 1, "a": 2}',
    '{"a": {"b": {"c": 1, "c": 1}}}',
    '{"a": 1e500}',
    '{"a": 1e-500}',
    "1" * 5000,
    "NaN",
    '{"a": -Infinity}',
    '{"a": "tab\there"}',
    "[" * (MAX_DEPTH + 2) + "]" * (MAX_DEPTH + 2),
    '{"a":' * 100_000 + '"}\\""' + "}" * 100_000,
    "[" * 100_000 + "]" * 100_000,
    '"' + "x" * MAX_EVENT_BYTES + '"',
    '"' + "ü" * (MAX_EVENT_BYTES // 2) + '"',
]
NO_JSON = [
    "",
    " ",
    "[",
    "]",
    "{",
    "{]",
    "nul",
    "'a'",
    "[1",
    "[1,",
    "[1,]",
    "[,1]",
    "[1 2]",
    "[1]]",
    "[1][",
    "{} {}",
    '{"a": }',
    '["a]',
    '[{"a": 1, "a": 2}, {]',
    "[" * 100_000,
    '{"a":' * 100_000,
    "\ufeff[]",
    "\xa0[]",
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.decimals(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
space = st.text(" \t\n\r", max_size=2)


def written(value: Any) -> str:
    """A value as JSON text."""
    if isinstance(value, Decimal):
        return str(value)
    if isinstance(value, list):
        return "[" + ", ".join(map(written, value)) + "]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(key)}: {written(item)}" for key, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)


def same(one: Element, other: Element) -> bool:
    """Whether two elements say the same, or fail for the same reason."""
    if isinstance(one.value, InvalidEvent) and isinstance(other.value, InvalidEvent):
        return (one.raw, one.value.reason, one.value.detail) == (other.raw, other.value.reason, other.value.detail)
    return one == other


@given(st.lists(st.tuples(space, json_values.map(written) | st.sampled_from(BAD[:9]), space)), space)
def test_each_element_is_what_it_would_be_alone(parts: list[tuple[str, str, str]], around: str) -> None:
    """Rule 4: the values and faults of a batch are those of its inputs, byte for byte."""
    body = around + "[" + ",".join(map("".join, parts)) + "]" + around
    batch = split_batch(body.encode(), limit=len(parts))
    assert not batch.single
    assert len(batch.elements) == len(parts)
    for element, (_, text, _) in zip(batch.elements, parts, strict=True):
        assert same(element, decode_element(text.encode()))


@given(space, json_values.filter(lambda value: not isinstance(value, list)), space)
def test_what_is_no_list_is_a_single_input(before: str, value: Any, after: str) -> None:
    """One object stands for itself; so does a number, which is no event but a dead letter."""
    text = written(value)
    batch = split_batch((before + text + after).encode(), limit=1)
    assert batch.single
    assert [same(element, decode_element(text.encode())) for element in batch.elements] == [True]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad[:12])
def test_a_bad_input_never_loses_its_neighbours(bad: str) -> None:
    """Rule 4: twins, monsters, NaN, abysses and giants become elements of their own, with their bytes."""
    before, element, after = split_batch(f"[{GOOD}, {bad},{GOOD}]".encode(), limit=3).elements
    assert before.value == after.value == decode_json(GOOD.encode())
    assert element.raw == bad.encode()
    with pytest.raises(InvalidEvent):
        element.event()


@pytest.mark.parametrize("bad", [bad for bad in BAD if not bad.startswith("[")], ids=lambda bad: bad[:12])
def test_a_single_bad_input_is_an_element(bad: str) -> None:
    """Rule 4: a single invalid event is dead-lettered, too."""
    batch = split_batch(bad.encode(), limit=1)
    assert (batch.single, [element.raw for element in batch.elements]) == (True, [bad.encode()])


@pytest.mark.parametrize("body", NO_JSON, ids=lambda body: body[:12])
def test_a_body_that_is_no_json_is_refused_whole(body: str) -> None:
    """Rule 4: nobody can tell where its events begin and end; the sender keeps it."""
    with pytest.raises(InvalidInput, match="not JSON"):
        split_batch(body.encode(), limit=1000)


def test_a_body_that_is_no_text_is_refused_whole() -> None:
    """Rule 4: a byte that is not UTF-8 could be anything."""
    with pytest.raises(InvalidInput, match="not UTF-8 at byte 2"):
        split_batch(b'["\xff"]', limit=1)


def test_the_number_of_events_is_limited() -> None:
    """The limit includes itself, and an empty list is a batch of nothing."""
    assert split_batch(b"[]", limit=0).elements == split_batch(b" [ ] ", limit=0).elements == []
    assert len(split_batch(b"[1, 2]", limit=2).elements) == 2
    with pytest.raises(InvalidInput, match="more than 2 events"):
        split_batch(b"[1, 2, 3]", limit=2)


def test_many_keys_cost_no_more_than_their_number() -> None:
    """The twin among a hundred thousand keys is found in one pass, or this test would not end."""
    keys = ",".join(f'"{number}":0' for number in range(300_000))
    (element,) = split_batch(f'[{{{keys},"299999":1}}]'.encode(), limit=1).elements
    assert isinstance(element.value, InvalidEvent)


@pytest.mark.parametrize("end", ["", "\\"])
def test_a_deep_text_without_an_end_is_read_once(end: str) -> None:
    """Each quote in it, tried as the beginning of a text of its own, would take hours."""
    with pytest.raises(InvalidInput, match="ends within its brackets"):
        split_batch(("[" * 5000 + '"' + '\\"' * 500_000 + end).encode(), limit=1000)


def test_many_faults_of_a_long_body_are_told_at_once() -> None:
    """Told with its line and column in the whole body, each would take the time of reading all that is before it."""
    batch = split_batch(("[" + ",".join(['"' + "x" * 1600 + '\x01"'] * 9999) + "]").encode(), limit=10_000)
    assert {str(element.value) for element in batch.elements} == {str(decode_element(batch.elements[0].raw).value)}


def test_what_is_deeper_than_any_parser_goes_ends_at_its_own_bracket() -> None:
    """Also where brackets of all kinds stand in a row, in texts too, and the batch ends with them."""
    deep = "[" * 50_000 + '"]]}\\"[["' + "[{}]" + "]" * 50_000
    first, second, third = split_batch(f"[{deep},{deep}, [{deep}]]".encode(), limit=3).elements
    assert first.raw == second.raw == deep.encode()
    assert third.raw == f"[{deep}]".encode()
