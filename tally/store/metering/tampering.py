"""SQL that finds what of the ledger is not as it was written: documents, prices."""

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


# What the ledger rates by: (price, modifier or unpriced; platform; resource_type; metric, or kind of the modifier;
# formula, or value that is modified; price, or modifier).
PriceRow = tuple[str, str, str, str, str, Decimal | None]


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


def price_rows(connection: Connection, version: str) -> set[PriceRow]:
    """The rows of a price version."""
    rows = connection.execute(
        """select 'price', platform, resource_type, metric, formula, price
           from ledger.prices where version = %(version)s
           union all
           select 'modifier', platform, resource_type, kind, value, modifier
           from ledger.price_modifiers where version = %(version)s
           union all
           select 'unpriced', platform, resource_type, metric, '', null
           from ledger.unpriced where version = %(version)s""",
        {"version": version},
    ).fetchall()
    return set(rows)
