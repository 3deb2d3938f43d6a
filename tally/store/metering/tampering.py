"""SQL that finds bills that are not as they were written, by the hashes of their documents."""

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.store.database import Connection
from tally.store.metering import effective
from tally.store.metering.runs import members


class StrangeBill(NamedTuple):
    """A bill whose text does not have its hash, or not its total."""

    run_id: UUID
    cloud: str
    project_id: str


class HashedBill(NamedTuple):
    """A bill that counts, with the hash of what its text is now."""

    cloud: str
    project_id: str
    total: Decimal
    document_hash: str


def strange_bills(connection: Connection, run_ids: Sequence[UUID]) -> list[StrangeBill]:
    """The bills of runs whose document is not the one that their hash was made of."""
    rows = connection.execute(
        """select run_id, cloud, project_id from ledger.bills
           where run_id = any(%s) and encode(sha256(convert_to(document, 'UTF8')), 'hex') <> document_hash
           order by cloud, project_id, run_id""",
        [list(run_ids)],
    ).fetchall()
    return [StrangeBill(*row) for row in rows]


def hashed_bills(connection: Connection, run_id: UUID) -> list[HashedBill]:
    """The bills that count as of a run."""
    query = f"""
        select cloud, project_id, total, encode(sha256(convert_to(document, 'UTF8')), 'hex')
        from {effective.BILLS} as bills"""
    rows = connection.execute(query.encode(), {"members": members(connection, run_id)}).fetchall()
    return [HashedBill(*row) for row in rows]
