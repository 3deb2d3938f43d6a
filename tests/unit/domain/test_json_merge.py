"""JSON Merge Patch: the examples of RFC 7396, appendix A, and that what is merged is not changed itself."""

from typing import Any

import pytest

from tally.domain.json_merge import merge_patch


@pytest.mark.parametrize(
    ("target", "patch", "result"),
    [
        ({"a": "b"}, {"a": "c"}, {"a": "c"}),
        ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
        ({"a": "b"}, {"a": None}, {}),
        ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
        ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
        ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
        ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
        ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
        (["a", "b"], ["c", "d"], ["c", "d"]),
        ({"a": "b"}, ["c"], ["c"]),
        ({"a": "foo"}, None, None),
        ({"a": "foo"}, "bar", "bar"),
        ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
        ([1, 2], {"a": "b", "c": None}, {"a": "b"}),
        ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ],
)
def test_the_examples_of_the_rfc(target: Any, patch: Any, result: Any) -> None:
    """Null takes away, objects are merged, all else replaces."""
    assert merge_patch(target, patch) == result


def test_what_is_merged_stays_as_it_was() -> None:
    """The stored value and the patch can be told apart from the result afterwards."""
    target: dict[str, Any] = {"a": {"b": 1}}
    patch: dict[str, Any] = {"a": {"c": 2}, "d": None}
    assert merge_patch(target, patch) == {"a": {"b": 1, "c": 2}}
    assert (target, patch) == ({"a": {"b": 1}}, {"a": {"c": 2}, "d": None})
