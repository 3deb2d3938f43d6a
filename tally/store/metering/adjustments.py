"""Rows of ledger.adjustments: the lines that relations put on bills, and what is owed to partners."""

from collections.abc import Iterable
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.store.database import Connection
from tally.store.metering import effective
from tally.store.metering.runs import members


class Agreed(NamedTuple):
    """What a relation agrees on."""

    relation_id: UUID
    place: int
    type: str
    relation_type: str
    source_cloud: str
    source_project_id: str
    target_cloud: str
    target_project_id: str
    target_name: str
    scope: str
    rate: Decimal
    description: str


class AdjustmentRow(NamedTuple):
    """One line: whose bill it is on, which relation agrees on what, and what it comes to."""

    cloud: str
    project_id: str
    agreed: Agreed
    base: Decimal
    amount: Decimal
    currency: str


_COLUMNS = ", ".join(("cloud", "project_id", *Agreed._fields, "base", "amount", "currency"))


def insert_adjustments(connection: Connection, run_id: UUID, rows: Iterable[AdjustmentRow]) -> None:
    """Write lines of bills of a run."""
    with connection.cursor().copy(f"copy ledger.adjustments (run_id, {_COLUMNS}) from stdin".encode()) as copy:
        for row in rows:
            copy.write_row((run_id, row.cloud, row.project_id, *row.agreed, row.base, row.amount, row.currency))


def reverse_adjustments(connection: Connection, run_id: UUID) -> None:
    """Take back the lines of the bills that a run has taken back."""
    values = _COLUMNS.replace("base, amount", "-base, -amount")
    columns = ", ".join(f"a.{name}" if name[0] != "-" else f"-a.{name[1:]}" for name in values.split(", "))
    connection.execute(
        f"""insert into ledger.adjustments (run_id, sign, reverses_run_id, {_COLUMNS})
            select bill.run_id, -1, a.run_id, {columns}
            from ledger.bills as bill
            inner join ledger.adjustments as a
                on a.run_id = bill.reverses_run_id and a.cloud = bill.cloud and a.project_id = bill.project_id
            where bill.run_id = %s and bill.sign = -1 and a.sign = 1""".encode(),
        [run_id],
    )


def select_adjustments(
    connection: Connection,
    run_id: UUID,
    kind: str | None = None,
    partner: str | None = None,
    partner_cloud: str | None = None,
) -> list[AdjustmentRow]:
    """The lines of the bills that count as of a run: all, of one type, or whose relation leads to one project."""
    query = f"""
        select {_COLUMNS} from {effective.ADJUSTMENTS} as adjustments
        where (%(kind)s::text is null or type = %(kind)s)
            and (%(partner)s::text is null or target_project_id = %(partner)s)
            and (%(partner_cloud)s::text is null or target_cloud = %(partner_cloud)s)
        order by target_cloud, target_project_id, currency, cloud, project_id, relation_id, place"""
    asked = {
        "members": members(connection, run_id),
        "kind": kind,
        "partner": partner,
        "partner_cloud": partner_cloud,
    }
    rows = connection.execute(query.encode(), asked).fetchall()
    return [
        AdjustmentRow(cloud, project_id, Agreed(*agreed), base, amount, currency)
        for cloud, project_id, *agreed, base, amount, currency in rows
    ]
