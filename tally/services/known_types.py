"""The registry as it is read: all resource types as of one version. Who changes it is registry.py."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from weakref import WeakKeyDictionary

from tally.domain.resource_type import ResourceType
from tally.store.database import Connection
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
        types = {(row.platform, row.resource_type): type_of(row) for row in rows}
        known = Registry(max((row.version for row in rows), default=0), types)
        _current[connection] = known
    return known


def type_of(row: store.DefinitionRow) -> ResourceType:
    """Read a stored definition."""
    return ResourceType.from_definition(row.platform, row.resource_type, row.version, row.definition)
