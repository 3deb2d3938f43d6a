"""The bills of a month as they were issued, one after the other: by the regular run, and by each correction of it."""

from collections.abc import Collection, Iterator
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from tally.domain.principal import ProjectKey
from tally.store.database import Connection
from tally.store.metering.asked import among_asked, asked_projects
from tally.store.metering.runs import members


class IssuedRow(NamedTuple):
    """What a run has issued for a project: a bill (sign 1), or with sign -1 what takes the bill before it back."""

    cloud: str
    project_id: str
    project_name: str | None
    run_id: UUID
    issued_at: datetime
    reason: str | None
    sign: int
    document: str
    document_hash: str


def issued_bills(
    connection: Connection, run_id: UUID, billed: Collection[ProjectKey] | None = None
) -> Iterator[IssuedRow]:
    """Stream what has been issued as of a run, project by project in the order of issue; needs a transaction.

    ``billed`` asks for some billed projects only.
    """
    query = f"""
        select b.cloud, b.project_id, p.name, b.run_id, coalesce(r.finalized_at, r.completed_at, r.started_at),
            r.reason, b.sign, b.document, b.document_hash
        from ledger.bills as b
        inner join ledger.runs as r on r.id = b.run_id
        left join lateral (  -- of these projects alone
            select name from ledger.run_projects
            where run_id = %(run_id)s and cloud = b.cloud and external_id = b.project_id
        ) as p on true
        where b.run_id = any(%(members)s)
            and {among_asked("b.cloud", "b.project_id")}
        order by b.cloud, b.project_id, r.load_id, b.sign"""
    asked = {"run_id": run_id, "members": members(connection, run_id), **asked_projects(billed)}
    with connection.cursor("issued_bills") as cursor:
        cursor.itersize = 1  # each document may be long
        for row in cursor.execute(query.encode(), asked):
            yield IssuedRow(*row)
