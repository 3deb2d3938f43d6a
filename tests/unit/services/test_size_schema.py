"""Which JSON Schemas of a size the registry takes, and that judging by them takes bounded time (rule 6)."""

from decimal import Decimal
from typing import Any

import pytest

from tally.domain.errors import InvalidInput
from tally.services.size_schema import MAX_PATTERNS, MAX_SCHEMA_DEPTH, check_schema, validator_of


def refusal(schema: dict[str, Any]) -> str:
    """Why a schema is refused."""
    with pytest.raises(InvalidInput) as error:
        check_schema("test.thing", schema)
    return str(error.value)


def chain(length: int, last: dict[str, Any]) -> dict[str, Any]:
    """Definitions each of which stands for the next one twice."""
    links: dict[str, Any] = {
        f"d{number}": {"allOf": [{"$ref": f"#/$defs/d{number + 1}"}] * 2} for number in range(length)
    }
    return {"$ref": "#/$defs/d0", "$defs": links | {f"d{length}": last}}


@pytest.mark.parametrize(
    "schema",
    [
        {},
        {"$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "https://example.com/thing"},
        {"properties": {"a": {"$ref": "#/$defs/gb"}}, "$defs": {"gb": {"minimum": Decimal("0.5")}}},
        {"properties": {"a": {"$ref": "#gb"}}, "$defs": {"x": {"$anchor": "gb", "type": "number"}}},
        {"properties": {"$ref": {"type": "string"}, "pattern": {"const": {"$ref": "elsewhere"}}}},
        {"properties": {f"p{n}": {"pattern": "^a$"} for n in range(MAX_PATTERNS + 1)}},
        {"properties": {"a": {"pattern": "^\\p{Lu}[a-z]+$"}, "b": {"enum": [{"patternProperties": 1}]}}},
        chain(4, {"type": "object"}),
    ],
)
def test_a_schema_is_taken(schema: dict[str, Any]) -> None:
    """What only looks like a keyword, as the name of a property or within a constant, is none."""
    check_schema("test.thing", schema)


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "objekt"}, "size/type: 'objekt' is not valid"),
        ({"properties": {"a": {"minimum": "0"}}}, "size/properties/a/minimum: '0' is not of type 'number'"),
        ({"$schema": "http://json-schema.org/draft-07/schema#"}, "size/$schema"),
        ({"properties": {"a": {"$ref": "http://example.invalid/a.json"}}}, "properties/a/$ref: .*another document"),
        ({"properties": {"a": {"$ref": "other.json#/a"}}}, "properties/a/$ref: .*another document"),
        ({"allOf": [{"$ref": "https://json-schema.org/draft/2020-12/schema"}]}, "allOf/0/$ref: .*another document"),
        ({"properties": {"a": {"$ref": "#/$defs/b"}}}, "a/$ref: .*leads nowhere"),
        ({"properties": {"a": {"$ref": "#b"}}}, "a/$ref: .*leads nowhere"),
        ({"$ref": "#/$comment", "$comment": "text"}, "$ref: .*no JSON Schema"),
        ({"$ref": "#"}, "refers to itself"),
        ({"properties": {"a": {"$ref": "#"}}}, "properties/a/$ref: it refers to itself"),
        ({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"not": {"$ref": "#/$defs/a"}}}}, "refers to itself"),
        (chain(12, {}), "stands for"),
        (chain(MAX_SCHEMA_DEPTH, {}), "nested deeper"),
        ({"$defs": {f"d{n}": {"$ref": f"#/$defs/d{n + 1}"} for n in range(2000)} | {"d2000": {}}}, "nested deeper"),
        ({"properties": {"a": {"pattern": "("}}}, "size/properties/a/pattern: .*unclosed"),
        ({"properties": {"a": {"pattern": "(?=a)"}}}, "size/properties/a/pattern: .*look-around"),
        ({"properties": {"a": {"pattern": r"(a)\1"}}}, "size/properties/a/pattern: .*backreferences"),
        ({"properties": {"a": {"pattern": "(a{1000}){1000}"}}}, "size/properties/a/pattern: .*limit"),
        ({"properties": {f"p{n}": {"pattern": f"^{n}$"} for n in range(MAX_PATTERNS + 1)}}, "more than 30 patterns"),
        ({"patternProperties": {"^a": {}}}, "size/patternProperties: .*propertyNames"),
        ({"$dynamicRef": "#a"}, "size/$dynamicRef"),
        ({"properties": {"a": {"$id": "https://example.com/a"}}}, "size/properties/a/$id"),
    ],
)
def test_a_schema_is_refused_with_its_place_and_the_reason(schema: dict[str, Any], told: str) -> None:
    """Rule 6: a person reads where it is wrong, and why."""
    place, _, why = told.partition(": .*")
    message = refusal(schema)
    assert message.startswith("test.thing: ")
    assert place in message
    assert why in message


def test_a_pattern_takes_time_by_the_length_of_the_text_only() -> None:
    """A pattern that backtracking engines need longer than the age of the universe for judges a text at once."""
    schema = {"properties": {"a": {"pattern": "^(a|a)*(a+)+$"}}}
    check_schema("test.thing", schema)
    assert validator_of(schema).is_valid({"a": "a" * 100_000})
    assert not validator_of(schema).is_valid({"a": "a" * 100_000 + "b"})


def test_a_pattern_ends_where_the_text_ends() -> None:
    """As in JSON Schema and unlike Python, a final line break is part of the text; a pattern may match inside."""
    assert not validator_of({"pattern": "^a$"}).is_valid("a\n")
    assert validator_of({"pattern": "b"}).is_valid("abc")
    assert validator_of({"pattern": "b"}).is_valid(5)


def test_unique_items_are_told_by_value() -> None:
    """1 and 1.0 are one item, 1 and true are two; a long list of all kinds is judged at once."""
    validator = validator_of({"uniqueItems": True})
    assert not validator.is_valid([1, "a", Decimal("1.0")])
    assert validator.is_valid([1, True, "1", None, {}])
    assert validator.is_valid([*range(50_000), *map(str, range(50_000))])
