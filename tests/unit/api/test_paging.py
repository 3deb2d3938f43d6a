"""Cursors: what one page writes the next one reads, and whatever else is sent is refused."""

import json
from base64 import urlsafe_b64encode
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.api.paging import Key, Page
from tally.domain.errors import InvalidInput

QUERY = "fingerprint"
KINDS = (datetime, UUID, str, int)
ID = UUID("12345678-1234-5678-1234-567812345678")


def after(content: bytes, *kinds: type) -> Key | None:
    """Read a cursor of any content."""
    return Page(10, urlsafe_b64encode(content).decode(), QUERY).after(*kinds)


@given(st.datetimes(timezones=st.just(UTC)), st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")))
def test_a_page_begins_where_the_one_before_ended(moment: datetime, text: str) -> None:
    """With every value of a key as it was."""
    key = (moment, ID, text, 2**62)
    answer = Page(1, None, QUERY).answer([key, key], lambda row: row, lambda _: None)
    cursor = json.loads(bytes(answer.body))["next_cursor"]
    assert Page(1, cursor, QUERY).after(*KINDS) == key
    with pytest.raises(InvalidInput, match="begin again without it"):
        Page(1, cursor, "another query").after(*KINDS)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=40) | st.just("\0") | st.just("\ud800"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)


@given(st.sampled_from(KINDS), json_values)
def test_a_forged_value_is_refused_or_one_of_its_kind(kind: type, value: Any) -> None:
    """Never an error of the server: it would be told as one that is not the client's."""
    try:
        key = after(json.dumps([QUERY, value]).encode(), kind)
    except InvalidInput:
        return
    assert key is not None
    assert type(key[0]) is kind


@given(json_values.map(lambda value: json.dumps(value).encode()) | st.binary(max_size=40) | st.just(b"[" * 100_000))
def test_a_forged_cursor_is_refused(content: bytes) -> None:
    """Whatever is in it."""
    with pytest.raises(InvalidInput):
        after(content, str)
