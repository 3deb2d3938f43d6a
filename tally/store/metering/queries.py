"""SQL that reads bills, records and runs of the ledger for who asks: filters, keyset pages. Nothing is written here.

What is read is what counts as of a run: of a correction, with the records of the runs that it stands on. Records are
all shown, reversals with their negated values, so that sums are right; of bills, those that nothing has taken back.

A statement holds the filters that are asked for and no others, and is planned for their values each time: whether the
key or the run is the better way depends on how much of the ledger a run is.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from tally.domain.principal import ProjectKey
from tally.domain.run import Run, RunStatus
from tally.store.database import Connection
from tally.store.metering.effective import BILLS
from tally.store.metering.runs import members

RecordKey = tuple[str, str, str, UUID]  # (cloud, resource_type, resource_id, id): the order of lists of records
RunKey = tuple[datetime, UUID]  # (started_at, id)


@dataclass(frozen=True, slots=True)
class LedgerFilter:
    """What a list is narrowed down to; None is no filter. Bills have no resource."""

    cloud: str | None = None
    project_id: str | None = None
    resource_type: str | None = None
    resource_id: str | None = None


class BillRow(NamedTuple):
    """A bill; ``document`` is the JSON text of the ledger, or None where the page holds enough already."""

    run_id: UUID
    cloud: str
    project_id: str
    platform: str
    total: Decimal
    currency: str
    document: str | None

    @property
    def key(self) -> ProjectKey:
        """Its place in a list."""
        return (self.cloud, self.project_id)


class UsageRow(NamedTuple):
    """A usage record; ``usage`` is its JSON text."""

    id: UUID
    run_id: UUID
    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    project_id: str
    state: str
    from_ts: datetime
    to_ts: datetime
    from_event_id: str | None
    to_event_id: str | None
    usage: str
    sign: int
    reverses_id: UUID | None

    @property
    def key(self) -> RecordKey:
        """Its place in a list."""
        return (self.cloud, self.resource_type, self.resource_id, self.id)


class RatedRow(NamedTuple):
    """A rated record: what one dimension of a usage record costs."""

    id: UUID
    run_id: UUID
    usage_record_id: UUID
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
    basis: dict[str, Any] | None
    from_ts: datetime | None  # the part of the usage record that it pays for; None: all of it
    to_ts: datetime | None
    sign: int
    reverses_id: UUID | None

    @property
    def key(self) -> RecordKey:
        """Its place in a list."""
        return (self.cloud, self.resource_type, self.resource_id, self.id)


BYTES_OF_BILLS = 16 * 1024 * 1024  # a large customer's bill alone has some megabytes

_RECORD_KEY = ("cloud", "resource_type", "resource_id", "id")


def bills(
    connection: Connection,
    run_id: UUID,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: ProjectKey | None,
    limit: int,
) -> list[BillRow]:
    """Return the next bills as of a run after a key, in the order of (cloud, project_id) of the billed project.

    The first has its document; so have those that follow until their documents are BYTES_OF_BILLS long.
    """
    frame = "order by t.cloud, t.project_id rows between unbounded preceding and 1 preceding"
    before = f"coalesce(sum(octet_length(t.document)) over ({frame}), 0)"
    document = f"case when {before} < {BYTES_OF_BILLS} then t.document end"
    columns = ", ".join(document if name == "document" else f"t.{name}" for name in BillRow._fields)
    rows = _page(connection, columns, BILLS, ("cloud", "project_id"), run_id, wanted, visible, after, limit)
    return [BillRow(*row) for row in rows]


def usage_records(
    connection: Connection,
    run_id: UUID,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: RecordKey | None,
    limit: int,
) -> list[UsageRow]:
    """Return the next usage records as of a run after a key: by (cloud, resource_type, resource_id, id).

    The event that ends a record may be of another project, to which the resource has gone: its id is for those alone
    who see that project.
    """
    told = {"usage": "t.usage::text"}
    if visible is not None:
        told |= {f"{end}_event_id": _event_id(end) for end in ("from", "to")}
    columns = ", ".join(told.get(name, f"t.{name}") for name in UsageRow._fields)
    rows = _page(connection, columns, "ledger.usage_records", _RECORD_KEY, run_id, wanted, visible, after, limit)
    return [UsageRow(*row) for row in rows]


def rated_records(
    connection: Connection,
    run_id: UUID,
    wanted: LedgerFilter,
    *,
    visible: Collection[ProjectKey] | None,
    after: RecordKey | None,
    limit: int,
) -> list[RatedRow]:
    """Return the next rated records as of a run after a key: by (cloud, resource_type, resource_id, id)."""
    columns = ", ".join(f"t.{name}" for name in RatedRow._fields)
    rows = _page(connection, columns, "ledger.rated_records", _RECORD_KEY, run_id, wanted, visible, after, limit)
    return [RatedRow(*row) for row in rows]


def runs(
    connection: Connection, period: str | None, status: RunStatus | None, *, after: RunKey | None, limit: int
) -> list[Run]:
    """Return the next runs after a key, the newest first."""
    where = ["true"]
    where += ["period = %(period)s"] if period else []
    where += ["status = %(status)s"] if status else []
    where += ["(started_at < %(at)s or started_at = %(at)s and id > %(id)s)"] if after else []
    query = f"""
        select {", ".join(field.name for field in fields(Run))} from ledger.runs
        where {" and ".join(where)} order by started_at desc, id limit %(limit)s"""
    at, run_id = after or (None, None)
    values = {"period": period, "status": status, "at": at, "id": run_id, "limit": limit}
    with connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(query.encode(), values, prepare=False).fetchall()


def _page(
    connection: Connection,
    columns: str,
    source: str,
    key: Sequence[str],
    run_id: UUID,
    wanted: LedgerFilter,
    visible: Collection[ProjectKey] | None,
    after: Sequence[object] | None,
    limit: int,
) -> list[tuple[Any, ...]]:
    names = [field.name for field in fields(LedgerFilter) if getattr(wanted, field.name) is not None]
    where = ["t.run_id = any(%(members)s)", *(f"t.{name} = %({name})s" for name in names)]
    order = ", ".join(f"t.{name}" for name in key)
    if after is not None:
        where.append(f"({order}) > ({', '.join(f'%(after_{place})s' for place in range(len(key)))})")
    if visible is not None:
        where += ["t.project_id = any(%(seen_projects)s)", _seen("t")]
    values = {name: getattr(wanted, name) for name in names} | {
        "members": members(connection, run_id),
        "limit": limit,
    }
    values |= {f"after_{place}": value for place, value in enumerate(after or ())}
    values |= {
        "seen_clouds": [cloud for cloud, _ in visible or ()],
        "seen_projects": [project_id for _, project_id in visible or ()],
    }
    query = f"select {columns} from {source} as t where {' and '.join(where)} order by {order} limit %(limit)s"
    return connection.execute(query.encode(), values, prepare=False).fetchall()


def _seen(alias: str) -> str:
    return (
        "exists (select from unnest(%(seen_clouds)s::text[], %(seen_projects)s::text[]) as seen (cloud, project_id)"
        f" where seen.cloud = {alias}.cloud and seen.project_id = {alias}.project_id)"
    )


def _event_id(end: str) -> str:
    """The event at one end of a usage record, if its project is seen."""
    return (
        "(select e.event_id from raw.events as e"
        " where e.cloud = t.cloud and e.resource_type = t.resource_type and e.resource_id = t.resource_id"
        f" and e.timestamp = t.{end}_ts and e.event_id = t.{end}_event_id and {_seen('e')}) as {end}_event_id"
    )
