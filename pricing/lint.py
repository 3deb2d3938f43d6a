"""A price file beside the registry of resource types: what it prices that does not exist, and what it forgets.

The form of a file is price_file.py's business. Here its names are held to the registry: a misspelt metric would never
be billed, a misspelt state would silently cost full price.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import yaml

from pricing.model import EVERYTHING, Formula, PriceVersion
from pricing.price_file import parse_price_version
from pricing.validity import check_versions
from pricing.yaml_nodes import Fault, Faults, FaultyDocument, Members, Reader, compose
from tally.domain.errors import Refused
from tally.domain.resource_type import RESERVED_METRICS, ResourceType

Kind = tuple[str, str]  # (platform, resource type)
Types = Mapping[Kind, ResourceType]

_NO_NUMBERS = frozenset({"string", "boolean", "object", "array", "null"})
_UNKNOWN = "unknown"  # the state of what never told one


@dataclass(frozen=True, slots=True)
class Lint:
    """What is wrong with a price file, and what is only worth knowing, each in the order of the lines.

    ``version`` is None if it cannot be read.
    """

    version: PriceVersion | None
    faults: tuple[Fault, ...]
    warnings: tuple[Fault, ...]


def lint(
    text: str, name: str, types: Types, *, all_types: bool = True, loaded: Sequence[PriceVersion] = ()
) -> Lint:
    """Judge a price file by its form, by the resource types, and by the versions that are loaded.

    Args:
        text: the file.
        name: of the file, for errors.
        types: the registry, by (platform, resource type).
        all_types: whether there are no others; else a type that is not among them is a warning.
        loaded: the versions of the installation, which it must fit in with.
    """
    faults: set[Fault] = set()
    version = None
    try:
        version = parse_price_version(text, name)
    except FaultyDocument as error:
        faults.update(error.faults)
    try:
        file = _File(compose(text, name), name)
    except FaultyDocument:  # no YAML, as is said already
        return Lint(None, tuple(sorted(faults)), ())
    if version is not None:
        faults.update(_faults_beside(file, version, loaded))
    warnings: set[Fault] = set()
    strangers = faults if all_types else warnings
    for kind, entry in [*file.priced(), *file.unpriced()]:
        if kind not in types:
            strangers.add(_fault(entry.key, _stranger(kind, all_types=all_types)))
    for kind, entry in file.priced():
        faults.update(_faults_of_priced(file, kind, entry.node, types[kind]) if kind in types else ())
    for kind, entry in file.unpriced():
        faults.update(_faults_of_unpriced(file, kind, entry.node, types[kind]) if kind in types else ())
    if not faults:
        warnings.update(_forgotten(file, types))
    return Lint(version, tuple(sorted(faults)), tuple(sorted(warnings)))


class _Entry(NamedTuple):
    """A key of a mapping, and what stands there."""

    key: yaml.Node
    node: yaml.Node


class _File:
    """The names in a price file with their nodes; what cannot be read is left out: the form of the file is at fault."""

    def __init__(self, root: yaml.Node, name: str) -> None:
        self._reader = Reader(Faults(name))
        self.root = self._reader.members(root, "")

    def priced(self) -> Iterator[tuple[Kind, _Entry]]:
        """Yield what is priced, with its dimensions and modifiers."""
        return self._kinds("pricing")

    def unpriced(self) -> Iterator[tuple[Kind, _Entry]]:
        """Yield what is free on purpose, with the list of its metrics."""
        return self._kinds("unpriced")

    def _kinds(self, part: str) -> Iterator[tuple[Kind, _Entry]]:
        for platform, resource_types in self._members(self.root.get(part)).items():
            for resource_type in self._members(resource_types):
                yield (platform, resource_type), _entry(resource_types, resource_type)

    def dimensions(self, node: yaml.Node) -> Iterator[tuple[str, str, yaml.Node]]:
        """Yield (metric, formula, node of the dimension) of what is priced of a resource type."""
        for dimension in self._items(self._members(node).get("dimensions")):
            keys = self._members(dimension)
            metric, formula = (self._text(keys.get(key)) for key in ("metric", "type"))
            if metric is not None:
                yield metric, formula or "", dimension

    def table(self, node: yaml.Node, key: str) -> Members:
        """Return a table of modifiers of a resource type."""
        return self._members(self._members(node).get(key))

    def free(self, node: yaml.Node) -> Iterator[tuple[str, yaml.Node]]:
        """Yield the metrics that are listed as unpriced."""
        for item in self._items(node):
            metric = self._text(item)
            if metric is not None:
                yield metric, item

    def _members(self, node: yaml.Node | None) -> Members:
        return {} if node is None else self._reader.members(node, "")

    def _items(self, node: yaml.Node | None) -> list[yaml.Node]:
        return [] if node is None else self._reader.items(node, "")

    def _text(self, node: yaml.Node | None) -> str | None:
        return None if node is None else self._reader.text(node, "")


def _entry(mapping: yaml.Node, name: str) -> _Entry:
    return next(_Entry(key, node) for key, node in mapping.value if key.value == name)


def _faults_beside(file: _File, version: PriceVersion, loaded: Sequence[PriceVersion]) -> Iterator[Fault]:
    others = [other for other in loaded if other.version != version.version]
    for same in loaded:
        if same.version == version.version and same.content_hash != version.content_hash:
            text = f"version {version.version} is loaded with other content, and never changes; choose another name"
            yield _fault(file.root["version"], text)
    try:
        check_versions([*others, version])
    except Refused as error:
        yield _fault(file.root["valid_from"], "; ".join(error.reasons))


def _faults_of_priced(file: _File, kind: Kind, node: yaml.Node, registered: ResourceType) -> Iterator[Fault]:
    name = ".".join(kind)
    for metric, formula, dimension in file.dimensions(node):
        if problem := _problem_of_price(registered, metric, formula):
            yield _fault(dimension, f"{name}.{metric} {problem}")
    for state, modifier in file.table(node, "state_modifiers").items():
        if state not in _states(registered):
            known = ", ".join(sorted(_states(registered)))
            yield _fault(modifier, f"state {state!r} of {name} is unknown to the registry; known are {known}")
    for value, modifier in file.table(node, "type_modifiers").items():
        if problem := _problem_of_type(registered, value):
            yield _fault(modifier, f"type {value!r} of {name} {problem}")


def _faults_of_unpriced(file: _File, kind: Kind, node: yaml.Node, registered: ResourceType) -> Iterator[Fault]:
    for metric, item in file.free(node):
        if metric != EVERYTHING and not _knows(registered, metric):
            yield _fault(item, f"unpriced {'.'.join(kind)}.{metric} {_unknown_metric(registered)}")


def _problem_of_price(registered: ResourceType, metric: str, formula: str) -> str:
    if not _knows(registered, metric):
        return _unknown_metric(registered)
    if metric in registered.counters:
        return "is a counter, not a gauge over time" if formula == Formula.TIME_GAUGE else ""
    schema = _property(registered, metric)
    if schema is None:
        return ""
    if str(schema.get("type")) in _NO_NUMBERS:
        return f"is a {schema['type']} in the registry, not a number"
    return "is part of the size, not a counter" if formula == Formula.COUNTER else ""


def _problem_of_type(registered: ResourceType, value: str) -> str:
    schema = _property(registered, "type")
    if schema is None:
        return "" if _open(registered) else "cannot be: the registry has no type in its size"
    known = schema.get("enum")
    if known is not None and value not in known:
        return f"is unknown to the registry; known are {', '.join(map(str, known))}"
    return ""


def _forgotten(file: _File, types: Types) -> Iterator[Fault]:
    """What the registry measures and the file neither prices nor frees: each is a finding, and blocks finalization."""
    priced = dict(file.priced())
    free = {kind: {metric for metric, _ in file.free(entry.node)} for kind, entry in file.unpriced()}
    for kind, registered in sorted(types.items()):
        name = ".".join(kind)
        if kind in priced:
            for text in _forgotten_of(file, priced[kind].node, free.get(kind, set()), registered):
                yield _fault(priced[kind].key, f"{name}: {text}")
        elif EVERYTHING not in free.get(kind, ()):
            yield Fault(0, f"{name} is neither priced nor unpriced")


def _forgotten_of(file: _File, node: yaml.Node, free: set[str], registered: ResourceType) -> Iterator[str]:
    for metric in sorted(_measured(registered) - free - {metric for metric, _, _ in file.dimensions(node)}):
        yield f"{metric} is neither priced nor unpriced"
    listed = file.table(node, "type_modifiers")
    known = (_property(registered, "type") or {}).get("enum", ()) if listed else ()
    for value in known:
        if value not in listed:
            yield f"type {value!r} is not among type_modifiers, and costs full price"


def _measured(registered: ResourceType) -> set[str]:
    return _numbers(registered) - registered.descriptive


def _numbers(registered: ResourceType) -> set[str]:
    gauges = {name for name in registered.size.get("properties", {}) if _is_number(_property(registered, name))}
    return gauges | registered.counters


def _is_number(schema: Mapping[str, Any] | None) -> bool:
    return (schema or {}).get("type") in ("number", "integer")


def _knows(registered: ResourceType, metric: str) -> bool:
    known = metric in registered.size.get("properties", {}) or metric in registered.counters
    # A type that declares no counters takes whatever name is sent, and so does an open size.
    return known or metric in RESERVED_METRICS or not registered.counters or _open(registered)


def _open(registered: ResourceType) -> bool:
    return registered.size.get("additionalProperties") is not False


def _unknown_metric(registered: ResourceType) -> str:
    return f"is unknown to the registry; known are {', '.join(sorted(_numbers(registered) | {'count'}))}"


def _states(registered: ResourceType) -> set[str]:
    implied = {transition.state for transition in registered.lifecycle.values() if transition.state}
    return implied | registered.normal_states | {_UNKNOWN}


def _property(registered: ResourceType, name: str) -> Mapping[str, Any] | None:
    schema = registered.size.get("properties", {}).get(name)
    return schema if isinstance(schema, Mapping) else None


def _stranger(kind: tuple[str, str], *, all_types: bool) -> str:
    name = ".".join(kind)
    if all_types:
        return f"{name} is not in the registry of resource types; register it first"
    return f"{name} does not ship with Tally; only the registry of the installation can judge it"


def _fault(node: yaml.Node, text: str) -> Fault:
    return Fault(node.start_mark.line + 1, text)
