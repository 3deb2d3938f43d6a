"""The reconciliation adapters that there are: which platform's provider has one, and the adapter of a cloud."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from pkgutil import iter_modules
from types import ModuleType

import tally.providers
from tally.domain.errors import NotFound
from tally.domain.inventory import Adapter, AdapterFactory
from tally.store.database import Connection
from tally.store.reporting import registry


def adapters(providers: ModuleType = tally.providers) -> Mapping[str, AdapterFactory]:
    """Return a factory for each platform whose provider has a module ``reconciliation``, with ``adapter(cloud)``."""
    names = [f"{providers.__name__}.{found.name}" for found in iter_modules(providers.__path__) if found.ispkg]
    return {
        name.rpartition(".")[2]: import_module(f"{name}.reconciliation").adapter
        for name in names
        if find_spec(f"{name}.reconciliation") is not None
    }


def adapter_of(connection: Connection, cloud: str, factories: Mapping[str, AdapterFactory]) -> Adapter:
    """Return the adapter of a cloud.

    Raises:
        NotFound: if the cloud is not registered, or its platform has no adapter.
    """
    platform = registry.platforms(connection, [cloud]).get(cloud)
    if platform is None:
        raise NotFound(f"cloud {cloud[:80]!r} is not registered; register it, or send its first event")
    factory = factories.get(platform)
    if factory is None:
        there_are = ", ".join(sorted(factories)) or "none yet"
        raise NotFound(f"platform {platform!r} of {cloud!r} has no reconciliation adapter; those with one: {there_are}")
    return factory(cloud)
