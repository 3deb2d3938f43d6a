"""The platforms that can be asked what they have: the adapters of reconciliation."""

from collections.abc import Mapping

from dagster import ConfigurableResource

from tally.domain.inventory import AdapterFactory
from tally.services.adapters import adapters


class Platforms(ConfigurableResource):  # type: ignore[type-arg]
    """Factories of adapters by platform; tests put others in their place."""

    def factories(self) -> Mapping[str, AdapterFactory]:
        """The platforms whose providers have an adapter."""
        return adapters()
