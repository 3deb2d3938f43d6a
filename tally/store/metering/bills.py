"""Rows from which bills are made, and the bills of a run."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.domain.graph import Relation
from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.json_text import read_json
from tally.store.metering import effective
from tally.store.metering.asked import among_asked, asked_projects
from tally.store.metering.runs import members


class ProjectRow(NamedTuple):
    """A project with its registry id; the id is None for a project that the registry does not know."""

    id: UUID | None
    cloud: str
    external_id: str
    platform: str
    name: str | None = None  # as it was in the regular run of the month, so that a bill can be made again


class UsedProject(NamedTuple):
    """A project that has usage, and how many usage records of it."""

    cloud: str
    external_id: str
    platform: str
    usage_records: int


class AttributionRow(NamedTuple):
    """Where a project of the run is billed."""

    cloud: str
    project_id: str
    billed_cloud: str
    billed_project_id: str
    relation_id: UUID | None
    relation_type: str | None
    depth: int


@dataclass(frozen=True, slots=True)
class BillRow:
    """One bill as it is stored: the document is the JSON text, byte for byte.

    A correction takes back the bill that ``reverses_run_id`` has written: its total is negated.
    """

    cloud: str
    project_id: str
    platform: str
    total: Decimal
    currency: str
    document: str
    document_hash: str
    reverses_run_id: UUID | None = None


class ProjectCosts(NamedTuple):
    """What a resource type of a project comes to."""

    cloud: str
    project_id: str
    platform: str
    resource_type: str
    total: Decimal


class IssuedBill(NamedTuple):
    """A bill that counts, without its document."""

    run_id: UUID
    cloud: str
    project_id: str
    platform: str
    total: Decimal
    currency: str
    document_hash: str


def projects_of_run(connection: Connection, run_id: UUID) -> list[UsedProject]:
    """Every project with usage that counts as of the run."""
    query = f"""
        select cloud, project_id, min(platform), count(*)
        from {effective.USAGE} as records
        group by cloud, project_id
        order by cloud, project_id"""
    rows = connection.execute(query.encode(), {"members": members(connection, run_id)}).fetchall()
    return [UsedProject(*row) for row in rows]


def costs_of_projects(connection: Connection, run_id: UUID, projects: Iterable[ProjectKey]) -> list[ProjectCosts]:
    """What counts as of the run, of some projects: of each by resource type, in the order of bills."""
    query = f"""
        select cloud, project_id, platform, resource_type, sum(amount)
        from {effective.RATED} as records
        where {among_asked("cloud", "project_id")}
        group by cloud, project_id, platform, resource_type
        order by cloud, project_id, resource_type, platform"""
    asked = {"members": members(connection, run_id), **asked_projects(projects)}
    return [ProjectCosts(*row) for row in connection.execute(query.encode(), asked).fetchall()]


def registered_projects(connection: Connection, run_id: UUID) -> list[ProjectRow]:
    """Every project of the registry that a run knows."""
    rows = connection.execute(
        """select id, cloud, external_id, platform, name from ledger.run_projects where run_id = %s
           order by cloud, external_id""",
        [run_id],
    ).fetchall()
    return [ProjectRow(*row) for row in rows]


def relations_at(connection: Connection, load_id: int) -> list[Relation]:
    """All versions of all relations at a load, without their reasons."""
    rows = connection.execute(
        """select id, version, source_id, target_id, relation_type, valid_from, valid_to, metadata::text
           from raw.project_relations where load_id <= %s""",
        [load_id],
    ).fetchall()
    return [
        Relation(id_, version, source, target, relation_type, valid_from, valid_to, read_json(metadata))
        for id_, version, source, target, relation_type, valid_from, valid_to, metadata in rows
    ]


def attributions(connection: Connection, run_id: UUID) -> list[AttributionRow]:
    """Where each project is billed as of a run."""
    columns = ", ".join(AttributionRow._fields)
    query = f"select {columns} from {effective.ATTRIBUTIONS} as attributions"
    rows = connection.execute(query.encode(), {"members": members(connection, run_id)}).fetchall()
    return [AttributionRow(*row) for row in rows]


def projects_with_records(connection: Connection, run_id: UUID) -> list[ProjectKey]:
    """The projects that a run has itself written usage or costs of, reversals included."""
    return connection.execute(
        """select cloud, project_id from ledger.usage_records where run_id = %(run_id)s
           union
           select cloud, project_id from ledger.rated_records where run_id = %(run_id)s""",
        {"run_id": run_id},
    ).fetchall()


def insert_attributions(connection: Connection, run_id: UUID, rows: Iterable[AttributionRow], sign: int = 1) -> None:
    """Write where each project is billed; with sign -1, where it is billed no longer."""
    with connection.cursor().copy(
        """copy ledger.attributions (run_id, cloud, project_id, billed_cloud, billed_project_id, relation_id,
               relation_type, depth, sign) from stdin"""
    ) as copy:
        for row in rows:
            copy.write_row((run_id, *row, sign))
    connection.execute("analyze ledger.attributions")


# Binary: as text, each newline of a document would be escaped here and read again there.
_COLUMNS = {
    "cloud": "text", "project_id": "text", "platform": "text", "total": "numeric", "currency": "text",
    "document": "text", "document_hash": "text",
}


def insert_bills(connection: Connection, run_id: UUID, bills: Sequence[BillRow]) -> None:
    """Write bills of a run whose documents are at hand."""
    columns = ", ".join(_COLUMNS)
    query = f"copy ledger.bills (run_id, reverses_run_id, sign, {columns}) from stdin with (format binary)"
    with connection.cursor().copy(query.encode()) as copy:
        copy.set_types(["uuid", "uuid", "int2", *_COLUMNS.values()])
        for bill in bills:
            sign = 1 if bill.reverses_run_id is None else -1
            copy.write_row((run_id, bill.reverses_run_id, sign, *(getattr(bill, column) for column in _COLUMNS)))


def issued_bills(
    connection: Connection, run_id: UUID, billed: Iterable[ProjectKey] | None = None
) -> list[IssuedBill]:
    """The bills that count as of a run, all or those of some projects, in the order of (cloud, project)."""
    query = f"""
        select run_id, cloud, project_id, platform, total, currency, document_hash
        from {effective.BILLS} as bills
        where {among_asked("cloud", "project_id")}
        order by cloud, project_id"""
    asked = {"members": members(connection, run_id), **asked_projects(billed)}
    rows = connection.execute(query.encode(), asked).fetchall()
    return [IssuedBill(*row) for row in rows]


def sum_of_bills(connection: Connection, run_id: UUID) -> tuple[int, Decimal]:
    """How many bills a run has written or taken back, and what they come to."""
    row = connection.execute(
        "select count(*), coalesce(sum(total), 0.00) from ledger.bills where run_id = %s", [run_id]
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def drop_unchanged(connection: Connection, run_id: UUID, former_run_id: UUID) -> list[ProjectKey]:
    """Take away what a run has written of bills that count as of a former one, and say the same; returns whose."""
    query = f"""
        delete from ledger.bills as written
        using {effective.BILLS} as former
        where written.run_id = %(run_id)s and written.sign = 1
            and former.cloud = written.cloud and former.project_id = written.project_id
            and former.document_hash = written.document_hash
        returning written.cloud, written.project_id"""
    asked = {"members": members(connection, former_run_id), "run_id": run_id}
    return connection.execute(query.encode(), asked).fetchall()


def delete_bills(connection: Connection, run_id: UUID) -> None:
    """Take away the bills, adjustments and attributions of a run that is still being made."""
    connection.execute("delete from ledger.bills where run_id = %s", [run_id])
    connection.execute("delete from ledger.adjustments where run_id = %s", [run_id])
    connection.execute("delete from ledger.attributions where run_id = %s", [run_id])


def select_document(connection: Connection, bill: IssuedBill) -> str:
    """The document of a bill, byte for byte."""
    row = connection.execute(
        "select document from ledger.bills where run_id = %s and cloud = %s and project_id = %s and sign = 1",
        [bill.run_id, bill.cloud, bill.project_id],
    ).fetchone()
    assert row is not None
    return str(row[0])


def billed_inside(
    connection: Connection, run_id: UUID, project: str, cloud: str | None = None
) -> list[tuple[str, str]]:
    """(cloud, project) of the bills that hold the costs of an attributed project, in whatever cloud or in one."""
    return connection.execute(
        """select distinct billed_cloud, billed_project_id from ledger.effective_attributions
           where as_of_run_id = %(run_id)s and project_id = %(project)s and depth > 0
               and (%(cloud)s::text is null or cloud = %(cloud)s)
           order by 1, 2""",
        {"run_id": run_id, "project": project, "cloud": cloud},
    ).fetchall()
