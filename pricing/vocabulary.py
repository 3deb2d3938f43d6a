"""What a price file may name: the metrics, states and types of the registry. A name of none of them would never be met.

A misspelt metric would be silently free, a misspelt state silently dear.
"""

from collections.abc import Collection, Mapping

from pricing.model import Formula, ModifierKind
from tally.domain.resource_type import ResourceType

ResourceTypes = Mapping[tuple[str, str], ResourceType]  # by (platform, resource type)

_MOST_NAMED = 12


class Vocabulary:
    """Judges names by registered resource types; by none if there are none to judge by."""

    def __init__(self, types: ResourceTypes | None) -> None:
        self._types = types

    def unknown_type(self, platform: str, resource_type: str) -> str | None:
        """The fault of a resource type that nobody has registered."""
        if self._types is None or (platform, resource_type) in self._types:
            return None
        return f"{platform}.{resource_type} is not a registered resource type; register it first"

    def unknown_metric(self, platform: str, resource_type: str, metric: str, formula: Formula) -> str | None:
        """The fault of a metric that the resource type does not have, or has as the other kind."""
        kind = self._type(platform, resource_type)
        if kind is None:
            return None
        numbers = _numbers(kind)
        known = numbers | {"count"} if formula is Formula.TIME_GAUGE else kind.counters
        if metric in known or (formula is Formula.TIME_GAUGE and _is_open(kind) and metric not in kind.counters):
            return None
        if metric in kind.counters:
            return f"{platform}.{resource_type}.{metric} is a counter of the registry, not a {formula}"
        if metric in numbers:
            return f"{platform}.{resource_type}.{metric} is a gauge of the registry, not a {formula}"
        return f"{platform}.{resource_type} has no metric {metric!r}; it has {_named(numbers | kind.counters)}"

    def unknown_value(self, platform: str, resource_type: str, kind: ModifierKind, value: str) -> str | None:
        """The fault of a state, or a type, that no resource of the resource type ever has."""
        registered = self._type(platform, resource_type)
        if registered is None:
            return None
        known = _states(registered) if kind == "state" else _type_values(registered)
        if known is None or value in known:
            return None
        return f"{platform}.{resource_type} has no {kind} {value!r}; it has {_named(known)}"

    def _type(self, platform: str, resource_type: str) -> ResourceType | None:
        return None if self._types is None else self._types.get((platform, resource_type))


def _is_open(kind: ResourceType) -> bool:
    """Whether a size may hold more than its schema lists."""
    return kind.size.get("additionalProperties", True) is not False


def _numbers(kind: ResourceType) -> frozenset[str]:
    """The gauges of a size; what its schema leaves open may be one."""
    properties = kind.size.get("properties", {})
    return frozenset(name for name, schema in properties.items() if _may_be_number(schema))


def _may_be_number(schema: object) -> bool:
    told = schema.get("type") if isinstance(schema, Mapping) else None
    return told is None or not {"integer", "number"}.isdisjoint([told] if isinstance(told, str) else told)


def _states(kind: ResourceType) -> frozenset[str]:
    implied = {transition.state for transition in kind.lifecycle.values() if transition.state is not None}
    return kind.normal_states | implied


def _type_values(kind: ResourceType) -> frozenset[str] | None:
    """What `type` of a size may be; None if its schema does not say."""
    schema = kind.size.get("properties", {}).get("type")
    values = schema.get("enum") if isinstance(schema, Mapping) else None
    return None if values is None else frozenset(map(str, values))


def _named(names: Collection[str]) -> str:
    shown = ", ".join(sorted(names)[:_MOST_NAMED])
    return shown + (f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else "") or "none"
