"""What the registry says of a resource type: the schema of its size, and what each event type does (rule 6)."""

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from enum import StrEnum
from typing import Any, Self

from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import MAX_TEXT_BYTES, canonical_json, check_value


class Effect(StrEnum):
    """What an event does to its resource. The order of definition is the rank within one instant (rule 8)."""

    CREATE = "create"
    UPDATE = "update"
    USAGE = "usage"
    DELETE = "delete"
    IGNORE = "ignore"


RANK = {effect: rank for rank, effect in enumerate((Effect.CREATE, Effect.UPDATE, Effect.USAGE, Effect.DELETE))}

# Names of usage that no size may take for itself.
RESERVED_METRICS = frozenset({"minutes", "count"})

# Limits on a definition; those of events hold for depth, numbers and texts.
MAX_DEFINITION_BYTES = 64 * 1024
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}", re.ASCII)  # no dot: prices write platform.resource_type


@dataclass(frozen=True, slots=True)
class Transition:
    """What one event type does: its effect, and the state it implies (None leaves the state as it was)."""

    effect: Effect
    state: str | None = None


# Reconciliation knows these for every resource type.
SYNTHETIC_TRANSITIONS = {
    "reconcile.create": Transition(Effect.CREATE),
    "reconcile.update": Transition(Effect.UPDATE),
    "reconcile.delete": Transition(Effect.DELETE),
}


@dataclass(frozen=True)
class ResourceType:
    """One version of the definition of (platform, resource_type)."""

    platform: str
    resource_type: str
    version: int
    size: Mapping[str, Any]  # JSON Schema of payload.size
    lifecycle: Mapping[str, Transition]  # event_type -> transition, the synthetic ones included
    normal_states: frozenset[str] = frozenset()  # cost full price without being listed in a price version
    descriptive: frozenset[str] = frozenset()  # numeric attributes that describe rather than measure
    counters: frozenset[str] = frozenset()  # metrics that payload.usage may carry
    definition: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def from_definition(cls, platform: str, resource_type: str, version: int, definition: Mapping[str, Any]) -> Self:
        """Read a definition as it stands in YAML or in the registry.

        Keys: size (JSON Schema), lifecycle ({event_type: effect or {effect, state}}), normal_states, descriptive,
        counters.

        Raises:
            InvalidInput: naming the key that is wrong.
        """
        where = f"{platform}.{resource_type}"
        _check_names(platform, resource_type)
        _check_shape(where, definition)
        lifecycle = {
            event_type: _transition(f"{where}: lifecycle of {event_type}", value)
            for event_type, value in definition.get("lifecycle", {}).items()
        }
        result = cls(
            platform=platform,
            resource_type=resource_type,
            version=version,
            size=definition.get("size", {}),
            lifecycle=lifecycle | SYNTHETIC_TRANSITIONS,
            normal_states=frozenset(definition.get("normal_states", ())),
            descriptive=frozenset(definition.get("descriptive", ())),
            counters=frozenset(definition.get("counters", ())),
            definition=definition,
        )
        _check_metrics(where, result)
        return result

    def transition(self, event_type: str) -> Transition:
        """Return what an event type does; there is no guessing from names.

        Raises:
            InvalidEvent: with reason unknown_event_type.
        """
        transition = self.lifecycle.get(event_type)
        if transition is None:
            raise InvalidEvent(
                "unknown_event_type",
                f"{event_type!r} is not in the lifecycle of {self.platform}.{self.resource_type}; "
                "register it, then replay",
            )
        return transition


def exact(value: Any) -> Any:
    """Return a definition with its binary floats, the only fractions of YAML, as the decimals they were written as."""
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, Mapping):
        return {str(key): exact(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [exact(item) for item in value]
    return value


def definition_hash(definition: Mapping[str, Any]) -> str:
    """One text per content, whatever the order of keys."""
    return hashlib.sha256(canonical_json(definition).encode()).hexdigest()


def _check_names(platform: str, resource_type: str) -> None:
    for what, name in (("platform", platform), ("resource type", resource_type)):
        if not _NAME.fullmatch(name):
            raise InvalidInput(
                f"{name[:80]!r} is no name of a {what}: it begins with a letter or digit, goes on with letters, digits,"
                " _ and -, and has at most 63 characters"
            )


def _check_shape(where: str, definition: Mapping[str, Any]) -> None:
    if not isinstance(definition, Mapping):
        raise InvalidInput(f"{where}: a definition is a mapping with {', '.join(_KEYS)}")
    unknown = sorted(set(definition) - set(_KEYS))
    if unknown:
        raise InvalidInput(f"{where}: {unknown[0][:60]!r} is not a key of a definition; it has {', '.join(_KEYS)}")
    for key, kind in _KEYS.items():
        if not isinstance(definition.get(key, kind()), kind):
            raise InvalidInput(f"{where}: {key} is not a {'mapping' if kind is dict else 'list'}")
    if not isinstance(definition.get("size", {}).get("properties", {}), Mapping):
        raise InvalidInput(f"{where}: size/properties is not a mapping")
    _check_limits(where, definition)
    for key in ("normal_states", "descriptive", "counters"):
        _check_texts(f"{where}: {key}", definition.get(key, ()))
    _check_texts(f"{where}: lifecycle", definition.get("lifecycle", {}))
    redefined = sorted(set(definition.get("lifecycle", {})) & set(SYNTHETIC_TRANSITIONS))
    if redefined:
        raise InvalidInput(f"{where}: {redefined[0]!r} means the same for every resource type and cannot be redefined")


def _check_limits(where: str, definition: Mapping[str, Any]) -> None:
    try:
        check_value(definition, "definition")
    except InvalidEvent as error:
        raise InvalidInput(f"{where}: {error.detail}") from None
    size = len(canonical_json(definition).encode())
    if size > MAX_DEFINITION_BYTES:
        raise InvalidInput(f"{where}: the definition has {size} bytes; at most {MAX_DEFINITION_BYTES} are taken")


def _check_texts(where: str, texts: Iterable[Any]) -> None:
    for text in texts:
        if not isinstance(text, str) or not 0 < len(text.encode()) <= MAX_TEXT_BYTES:
            raise InvalidInput(f"{where} holds {str(text)[:60]!r}, which is no text of 1 to {MAX_TEXT_BYTES} bytes")


def _check_metrics(where: str, resource_type: ResourceType) -> None:
    """Let every metric have one meaning: minutes and count are Tally's, a counter is no dimension of a size."""
    reserved = resource_type.counters & RESERVED_METRICS
    if reserved:
        raise InvalidInput(f"{where}: counters may not hold {sorted(reserved)}; Tally counts them itself")
    forbidden = set(resource_type.size.get("properties", {})) & (RESERVED_METRICS | resource_type.counters)
    if forbidden:
        raise InvalidInput(f"{where}: size may not hold {sorted(forbidden)}; they are usage of their own")


_KEYS: Mapping[str, type] = {
    "size": dict,
    "lifecycle": dict,
    "normal_states": list,
    "descriptive": list,
    "counters": list,
}


def _transition(where: str, value: Any) -> Transition:
    if isinstance(value, Mapping) and (unknown := sorted(set(value) - {"effect", "state"})):
        raise InvalidInput(f"{where}: {unknown[0][:60]!r} is not known there; it has an effect and may have a state")
    effect, state = (value.get("effect", ""), value.get("state")) if isinstance(value, Mapping) else (value, None)
    if state is not None:
        _check_texts(f"{where}: state", [state])
    try:
        return Transition(Effect(effect), state)
    except ValueError:
        raise InvalidInput(f"{where}: {str(effect)[:60]!r} is none of {[e.value for e in Effect]}") from None
