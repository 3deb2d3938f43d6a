"""Rated records with all that an export says of them, run by run: what a run has written, streamed bill by bill.

A correction is what counts as of it but not as of the run before, and with sign -1 what counted as of that one and no
longer does: so a project that is billed elsewhere from now on moves, too, although its records stay as they are.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.charge import Charge
from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.metering import effective
from tally.store.metering.asked import among_asked, asked_projects
from tally.store.metering.runs import members

_BATCH = 5000


class WrittenBill(NamedTuple):
    """A bill that a run has written (sign 1), or the one that it has taken back (-1): its document, not negated."""

    cloud: str
    project_id: str
    platform: str
    currency: str
    document: str
    sign: int


class WrittenTotal(NamedTuple):
    """What a run has billed a project; ``sign`` is -1 if it has taken the bill back and written no other."""

    total: Decimal
    sign: int


class KnownProject(NamedTuple):
    """What the registry holds of a project, as of a run."""

    name: str | None
    metadata: Mapping[str, Any]


_ORDER = """order by billed_cloud, billed_project_id, cloud, project_id, resource_type, resource_id, from_ts, dimension,
    sign, rated_record_id"""


def _counting(name: str, *, narrowed: bool) -> str:
    """What counts as of the runs named ``<name>_members``; narrowed, only of the projects that a correction touches."""
    touched = "where (u.cloud, u.project_id) in (select cloud, project_id from touched)" if narrowed else ""
    query = f"""
        select a.billed_cloud, a.billed_project_id, u.cloud, u.project_id, u.platform, u.resource_type, u.resource_id,
            u.usage ->> 'name' as resource_name, u.state, u.usage ->> 'type' as type,
            coalesce(r.from_ts, u.from_ts) as from_ts, coalesce(r.to_ts, u.to_ts) as to_ts, r.dimension,
            (r.basis ->> 'microseconds')::bigint as charged_us, r.quantity, r.price, r.state_modifier, r.type_modifier,
            r.amount, r.amount_exact, r.currency, r.pricing_version, r.id as rated_record_id, u.id as usage_record_id
        from {effective.USAGE} as u
        inner join {effective.RATED} as r
            on r.cloud = u.cloud and r.resource_type = u.resource_type and r.resource_id = u.resource_id
            and r.usage_record_id = u.id
        inner join {effective.ATTRIBUTIONS} as a on a.cloud = u.cloud and a.project_id = u.project_id
        {touched}"""
    return query.replace("%(members)s", f"%({name}_members)s")


_OF_PRICE = {
    "formula": "coalesce(p.formula, 'counter') as formula",
    "graduated": "coalesce(p.tier_mode = 'graduated', false) as graduated",
}

_SAME = """t.billed_cloud = c.billed_cloud and t.billed_project_id = c.billed_project_id and t.cloud = c.cloud
    and t.resource_type = c.resource_type and t.resource_id = c.resource_id and t.rated_record_id = c.rated_record_id"""

_REGULAR = f"""charges as (
    select *, 1 as sign from ({_counting("now", narrowed=False)}) as counting
)"""

_CORRECTION = f"""touched as materialized (
    select cloud, project_id from ledger.usage_records where run_id = %(run_id)s
    union
    select cloud, project_id from ledger.rated_records where run_id = %(run_id)s
    union
    select cloud, project_id from ledger.attributions where run_id = %(run_id)s
),
former as ({_counting("former", narrowed=True)}),
counting as ({_counting("now", narrowed=True)}),
charges as (
    select *, -1 as sign from former as c where not exists (select from counting as t where {_SAME})
    union all
    select *, 1 from counting as c where not exists (select from former as t where {_SAME})
)"""


def charges(
    connection: Connection, run_id: UUID, former_run_id: UUID | None, billed: Iterable[ProjectKey] | None = None
) -> Iterator[Charge]:
    """Stream what a run has written, of a correction with the run before it; needs a transaction.

    ``billed`` asks for the charges of some billed projects only.
    """
    columns = ", ".join(_OF_PRICE.get(name, f"c.{name}") for name in Charge._fields)
    query = f"""
        with {_CORRECTION if former_run_id else _REGULAR}
        select {columns}
        from charges as c
        left join ledger.prices as p
            on p.version = c.pricing_version and p.platform = c.platform and p.resource_type = c.resource_type
            and p.metric = c.dimension
        where {among_asked("c.billed_cloud", "c.billed_project_id")}
        {_ORDER}"""
    asked: dict[str, Any] = {"run_id": run_id, "now_members": members(connection, run_id), **asked_projects(billed)}
    if former_run_id:
        asked["former_members"] = members(connection, former_run_id)
    # All rows are wanted, not the first ones soon: else the planner takes a cursor for a reason to loop.
    connection.execute("set local cursor_tuple_fraction = 1")
    with connection.cursor("charges") as cursor:
        cursor.itersize = _BATCH
        for row in cursor.execute(query.encode(), asked):
            yield Charge(*row)


def written_bills(
    connection: Connection, run_id: UUID, billed: Iterable[ProjectKey] | None = None
) -> Iterator[WrittenBill]:
    """Stream the bills that a run has written and those that it has taken back; needs a transaction."""
    query = f"""
        select b.cloud, b.project_id, b.platform, b.currency, coalesce(old.document, b.document), b.sign
        from ledger.bills as b
        left join ledger.bills as old
            on old.run_id = b.reverses_run_id and old.cloud = b.cloud and old.project_id = b.project_id and old.sign = 1
        where b.run_id = %(run_id)s and {among_asked("b.cloud", "b.project_id")}
        order by b.cloud, b.project_id, b.sign"""
    with connection.cursor("written_bills") as cursor:
        cursor.itersize = 100  # documents may be long
        for row in cursor.execute(query.encode(), {"run_id": run_id, **asked_projects(billed)}):
            yield WrittenBill(*row)


def written_totals(
    connection: Connection, run_id: UUID, billed: Iterable[ProjectKey] | None = None
) -> dict[ProjectKey, WrittenTotal]:
    """What a run has billed each project, less what it has taken back."""
    query = f"""
        select b.cloud, b.project_id, sum(b.total), max(b.sign) from ledger.bills as b
        where b.run_id = %(run_id)s and {among_asked("b.cloud", "b.project_id")}
        group by b.cloud, b.project_id"""
    rows = connection.execute(query.encode(), {"run_id": run_id, **asked_projects(billed)}).fetchall()
    return {(cloud, project_id): WrittenTotal(total, sign) for cloud, project_id, total, sign in rows}


def known_projects(connection: Connection, run_id: UUID) -> dict[ProjectKey, KnownProject]:
    """What a run knows of the projects of the registry."""
    rows = connection.execute(
        "select cloud, external_id, name, metadata::text from ledger.run_projects where run_id = %s", [run_id]
    ).fetchall()
    return {
        (cloud, project_id): KnownProject(name, read_json(metadata)) for cloud, project_id, name, metadata in rows
    }
