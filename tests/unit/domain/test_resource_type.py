"""Definitions of resource types: their keys, their lifecycle, their hash (rule 6)."""

from decimal import Decimal
from typing import Any

import pytest

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.resource_type import Effect, ResourceType, Transition, definition_hash, exact

DEFINITION: dict[str, Any] = {
    "size": {"type": "object", "properties": {"size_gb": {"type": "number"}}},
    "lifecycle": {"volume.create.end": {"effect": "create", "state": "available"}, "volume.delete.end": "delete"},
    "normal_states": ["available"],
    "descriptive": ["lan_id"],
    "counters": ["egress_gb"],
}


def read(**changes: Any) -> ResourceType:
    """The definition with some keys changed."""
    return ResourceType.from_definition("openstack", "volume", 1, DEFINITION | changes)


def test_a_lifecycle_says_what_an_event_type_does() -> None:
    """Rule 6: an effect, and the state it implies."""
    assert read().transition("volume.create.end") == Transition(Effect.CREATE, "available")
    assert read().transition("volume.delete.end") == Transition(Effect.DELETE)


def nested(depth: int) -> dict[str, Any]:
    """A schema within a schema."""
    schema: dict[str, Any] = {}
    for _ in range(depth):
        schema = {"not": schema}
    return schema


@pytest.mark.parametrize(
    "event_type", ["volume.create", "volume.create.end.", "VOLUME.CREATE.END", "snapshot.delete.end"]
)
def test_nothing_is_guessed_from_names(event_type: str) -> None:
    """Rule 6: an unknown event type is refused with its own reason."""
    with pytest.raises(InvalidEvent) as refusal:
        read().transition(event_type)
    assert refusal.value.reason == "unknown_event_type"


@pytest.mark.parametrize("effect", ["create", "update", "delete"])
def test_the_synthetic_types_are_known_everywhere(effect: str) -> None:
    """Rule 6: reconcile.create, reconcile.update and reconcile.delete."""
    assert read(lifecycle={}).transition(f"reconcile.{effect}").effect == Effect(effect)


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"lifecycle": {"a": "destroy"}}, "destroy"),
        ({"lifecycle": {"a": {"state": "active"}}}, "lifecycle of a"),
        ({"lifecycle": {"a": {"effect": "create", "state": 5}}}, "state"),
        ({"lifecycle": {"reconcile.delete": "ignore"}}, "reconcile.delete"),
        ({"lifecycle": ["a"]}, "lifecycle"),
        ({"counters": "egress_gb"}, "counters"),
        ({"size": []}, "size"),
        ({"sizes": {}}, "sizes"),
        ({"size": {"properties": {"minutes": {}}}}, "minutes"),
        ({"size": {"properties": {"count": {}}}}, "count"),
        ({"size": {"properties": {"egress_gb": {}}}}, "egress_gb"),
        ({"size": {"properties": 5}}, "size/properties"),
        ({"size": {"description": "x" * 70_000}}, "65536"),
        ({"size": {"description": "\0"}}, "NUL"),
        ({"size": {"maximum": 10**101}}, "1e100"),
        ({"size": nested(40)}, "nested deeper"),
        ({"lifecycle": {"a": {"effect": "create", "sate": "x"}}}, "sate"),
        ({"lifecycle": {"a": {"effect": "create", "state": "x" * 513}}}, "state"),
        ({"lifecycle": {"a": ["create"]}}, "lifecycle of a"),
        ({"lifecycle": {"": "create"}}, "lifecycle"),
        ({"lifecycle": {"x" * 513: "create"}}, "lifecycle"),
        ({"normal_states": [[]]}, "normal_states"),
        ({"normal_states": [""]}, "normal_states"),
        ({"descriptive": [5]}, "descriptive"),
        ({"counters": [{}]}, "counters"),
        ({"counters": ["minutes"]}, "counters.*minutes"),
    ],
)
def test_a_faulty_definition_is_refused_by_name(changes: dict[str, Any], named: str) -> None:
    """Rule 6: a size may not hold minutes, count or a counter; everything else has its place."""
    with pytest.raises(InvalidInput, match=f"openstack.volume.*{named}"):
        read(**changes)


@pytest.mark.parametrize("name", ["", "a.b", "a/b", "-a", "a b", "ä", "x" * 64, "a\n"])
def test_a_name_can_stand_in_prices_and_paths(name: str) -> None:
    """Prices write platform.resource_type: neither part may hold a dot."""
    for platform, resource_type in ((name, "volume"), ("openstack", name)):
        with pytest.raises(InvalidInput, match="name of a"):
            ResourceType.from_definition(platform, resource_type, 1, DEFINITION)


def test_the_hash_is_of_the_content() -> None:
    """The order of keys is no content; a float of YAML is the decimal it was written as."""
    assert definition_hash(DEFINITION) == definition_hash(dict(reversed(DEFINITION.items())))
    assert definition_hash(DEFINITION) != definition_hash(DEFINITION | {"counters": []})
    assert exact({"minimum": 0.1, "list": [1.5, 2]}) == {"minimum": Decimal("0.1"), "list": [Decimal("1.5"), 2]}
