"""Questions about the inventory: what exists now, as the projection says (rule 11)."""

from collections.abc import Collection

from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.reporting import queries as store
from tally.store.reporting.events import Resource
from tally.store.reporting.queries import ResourceFilter, ResourceRow


def list_resources(
    reporting: Connection,
    wanted: ResourceFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: Resource | None,
    limit: int,
) -> list[ResourceRow]:
    """Return the next resources after a key, in the order of (cloud, resource_type, resource_id).

    A resource belongs to the project that its last configuration names. Status ``active`` are those with an open
    lifetime, ``deleted`` those whose last one has ended; those of which only usage is known are in ``all`` alone.
    """
    return store.resources(reporting, wanted, visible=visible, after=after, limit=limit)
