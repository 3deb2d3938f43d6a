"""SQL that finds what a rated record stands on: its usage record, its price, the events that its run has read.

The key of records begins with the resource. An index by id alone would be one more random write for each record of a
close, so that a record is looked for within a run, or by its whole key where the resource is known.
"""

from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.event import Event
from tally.domain.principal import ProjectKey
from tally.domain.resource_type import Effect, Transition
from tally.store.database import Connection

Resource = tuple[str, str, str]  # (cloud, resource_type, resource_id)


class RatedRecord(NamedTuple):
    """A rated record with the formula and the hash of its price version."""

    id: UUID
    run_id: UUID
    usage_record_id: UUID
    sign: int
    reverses_id: UUID | None
    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    project_id: str
    dimension: str
    quantity: Decimal
    price: Decimal
    state_modifier: Decimal
    type_modifier: Decimal
    amount: Decimal
    amount_exact: Decimal
    currency: str
    pricing_version: str
    basis: dict[str, Any] | None  # what the amount goes by, if its price has terms
    from_ts: datetime | None  # the part of the usage record that it pays for; None: all of it
    to_ts: datetime | None
    pricing_hash: str
    formula: str | None  # None if the price version no longer has that price: somebody has changed it

    @property
    def resource(self) -> Resource:
        """The key of its resource."""
        return (self.cloud, self.resource_type, self.resource_id)


class UsageRecord(NamedTuple):
    """A usage record; ``counters`` are the metrics that are summed."""

    id: UUID
    run_id: UUID
    sign: int
    reverses_id: UUID | None
    project_id: str
    state: str
    lifetime_no: int
    from_ts: datetime
    to_ts: datetime
    from_event_id: str | None
    to_event_id: str | None
    usage: dict[str, Any]
    counters: list[str]


_OWN = {"pricing_hash": "v.content_hash", "formula": "p.formula"}
_RATED = f"""
    select {", ".join(_OWN.get(name, f"r.{name}") for name in RatedRecord._fields)}
    from ledger.rated_records as r
    inner join ledger.pricing_versions as v on v.version = r.pricing_version
    left join ledger.prices as p
        on p.version = r.pricing_version and p.platform = r.platform and p.resource_type = r.resource_type
            and p.metric = r.dimension
    where """


def find_rated_record(
    connection: Connection, run_id: UUID, record_id: UUID, visible: Collection[ProjectKey] | None
) -> RatedRecord | None:
    """A rated record of a run, if it is of a visible project; reads the records of the run, or of those projects in it.

    ``visible`` None is all projects.
    """
    where, values = "r.run_id = %(run_id)s and r.id = %(id)s", {"run_id": run_id, "id": record_id}
    if visible is not None:
        where += " and r.project_id = any(%(projects)s)"
        values |= {"projects": [project_id for _, project_id in visible]}  # type: ignore[dict-item]
    row = connection.execute((_RATED + where).encode(), values, prepare=False).fetchone()
    found = RatedRecord(*row) if row else None
    if found is None or visible is None or (found.cloud, found.project_id) in visible:
        return found
    return None


def rated_record(connection: Connection, resource: Resource, record_id: UUID) -> RatedRecord | None:
    """A rated record by its whole key."""
    where = "(r.cloud, r.resource_type, r.resource_id, r.id) = (%s, %s, %s, %s)"
    row = connection.execute((_RATED + where).encode(), [*resource, record_id]).fetchone()
    return RatedRecord(*row) if row else None


def reversal_of(connection: Connection, resource: Resource, record_id: UUID) -> tuple[UUID, UUID] | None:
    """(id, run id) of the rated record that reverses one."""
    return connection.execute(
        """select id, run_id from ledger.rated_records
           where cloud = %s and resource_type = %s and resource_id = %s and reverses_id = %s""",
        [*resource, record_id],
    ).fetchone()


def usage_record(connection: Connection, resource: Resource, record_id: UUID) -> UsageRecord | None:
    """A usage record by its whole key."""
    row = connection.execute(
        f"""select {", ".join(UsageRecord._fields)} from ledger.usage_records
            where cloud = %s and resource_type = %s and resource_id = %s and id = %s""".encode(),
        [*resource, record_id],
    ).fetchone()
    return UsageRecord(*row) if row else None


def history(connection: Connection, resource: Resource, load_id: int) -> list[Event]:
    """The events of a resource that a load and those before it have brought, in no order."""
    rows = connection.execute(
        """select event_id, timestamp, event_type, platform, cloud, resource_type, resource_id, project_id, source,
               payload
           from raw.events
           where cloud = %s and resource_type = %s and resource_id = %s and load_id <= %s""",
        [*resource, load_id],
    ).fetchall()
    return [Event(*row) for row in rows]


def transitions(
    connection: Connection, platform: str, resource_type: str, registry_version: int
) -> dict[str, Transition]:
    """What each event type of a resource type did, as of a version of the registry."""
    rows = connection.execute(
        """select event_type, effect, state from raw.lifecycles
           where platform = %(platform)s and resource_type = %(resource_type)s and version = (
               select max(version) from raw.resource_types
               where platform = %(platform)s and resource_type = %(resource_type)s and version <= %(version)s)""",
        {"platform": platform, "resource_type": resource_type, "version": registry_version},
    ).fetchall()
    return {event_type: Transition(Effect(effect), state) for event_type, effect, state in rows}
