"""The registry of resource types: loading those that Tally ships, adding an operator's, and reading the whole (rule 6).

How an event is judged by a type does not belong here.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import Any
from weakref import WeakKeyDictionary

import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError

from tally.domain.errors import InvalidInput
from tally.domain.resource_type import ResourceType, definition_hash, exact
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import registry as store

Key = tuple[str, str]  # (platform, resource_type)


@dataclass(frozen=True)
class Registry(Mapping[Key, ResourceType]):
    """All resource types as of one version of the registry, by (platform, resource_type)."""

    version: int
    types: Mapping[Key, ResourceType]

    def __getitem__(self, key: Key) -> ResourceType:
        return self.types[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self.types)

    def __len__(self) -> int:
        return len(self.types)


_current: WeakKeyDictionary[Connection, Registry] = WeakKeyDictionary()


def current_registry(connection: Connection) -> Registry:
    """Return the registry as it is now; a connection reads the definitions again only when the version has moved."""
    version = store.version(connection)
    known = _current.get(connection)
    if known is None or known.version != version:
        # Read with one statement, so that the version fits the definitions even if it has moved in between.
        rows = store.definitions(connection)
        types = {
            (row.platform, row.resource_type): ResourceType.from_definition(
                row.platform, row.resource_type, row.version, row.definition
            )
            for row in rows
        }
        known = Registry(max((row.version for row in rows), default=0), types)
        _current[connection] = known
    return known


def load_builtin_types(connection: Connection) -> list[str]:
    """Load the definitions that Tally ships, and return the names of those that are new or changed.

    A type that an operator has defined is left alone.

    Raises:
        InvalidInput: naming the file and what is wrong in it.
    """
    shipped = dict(_shipped())
    with connection.transaction():
        store.lock_definitions(connection)
        rows = {(row.platform, row.resource_type): row for row in store.definitions(connection)}
        added = []
        for (platform, resource_type), definition in shipped.items():
            row = rows.get((platform, resource_type))
            if row is None or row.origin == "builtin":
                version = _add(connection, row, platform, resource_type, definition, "builtin")
                if version is not None:
                    added.append(f"{platform}.{resource_type}")
        if added:
            audit.record(connection, "tally", "resource_type.load", "builtin", {"resource_types": added})
    return added


def define_type(
    connection: Connection, platform: str, resource_type: str, definition: Mapping[str, Any], actor: str
) -> ResourceType:
    """Add an operator's definition, which from now on holds; the same definition again changes nothing.

    Raises:
        InvalidInput: naming what is wrong in it.
    """
    definition = check_definition(platform, resource_type, definition)
    with connection.transaction():
        store.lock_definitions(connection)
        rows = {(row.platform, row.resource_type): row for row in store.definitions(connection)}
        row = rows.get((platform, resource_type))
        version = _add(connection, row, platform, resource_type, definition, "operator")
        if version is not None:
            subject = f"{platform}.{resource_type}"
            audit.record(connection, actor, "resource_type.define", subject, {"version": version})
    return current_registry(connection)[platform, resource_type]


def check_definition(platform: str, resource_type: str, definition: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a definition with decimals for floats, after checking its keys, its lifecycle and its JSON Schema.

    Raises:
        InvalidInput: naming what is wrong.
    """
    definition = exact(definition)
    parsed = ResourceType.from_definition(platform, resource_type, 0, definition)
    try:
        Draft202012Validator.check_schema(parsed.size)
    except SchemaError as error:
        where = "/".join(map(str, error.absolute_path)) or "its top"
        raise InvalidInput(f"{platform}.{resource_type}: size is no JSON Schema at {where}: {error.message}") from None
    return definition


def _add(
    connection: Connection,
    row: store.DefinitionRow | None,
    platform: str,
    resource_type: str,
    definition: Mapping[str, Any],
    origin: str,
) -> int | None:
    """Add a version unless the one that holds says the same."""
    content = definition_hash(definition)
    if row is not None and (row.content_hash, row.origin) == (content, origin):
        return None
    version = store.version(connection) + 1
    store.add_definition(connection, store.DefinitionRow(platform, resource_type, version, definition, content, origin))
    return version


def _shipped() -> Iterator[tuple[Key, Mapping[str, Any]]]:
    """Read tally/providers/<platform>/resource_types.yaml of every platform, in the order of their names."""
    for folder in sorted(files("tally.providers").iterdir(), key=lambda folder: folder.name):
        file = folder / "resource_types.yaml"
        if not file.is_file():
            continue
        try:
            content = yaml.safe_load(file.read_text(encoding="utf-8")) or {}
        except yaml.YAMLError as error:
            raise InvalidInput(f"{file}: {error}") from None
        if not isinstance(content, dict):
            raise InvalidInput(f"{file}: its top level is not a mapping of resource types")
        for resource_type, definition in content.items():
            yield (folder.name, resource_type), check_definition(folder.name, resource_type, definition)
