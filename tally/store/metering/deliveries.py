"""The outbox of documents: filled from the ledger, worked off under a lock for each document, read by who asks.

An advisory lock holds a document while it is on its way. It belongs to the connection: whoever is killed has let go of
it, and the next one finishes at once.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple
from uuid import UUID

from tally.domain.billing_document import BillingDocument, DocumentKey, DocumentType, document_type
from tally.domain.delivery import DeliveryStatus
from tally.store.database import Connection

ListKey = tuple[str, UUID, str, str, int, int]  # (target, run_id, cloud, project_id, sign, sending): order of lists

_PAGE = 500
_UNDER_WAY = "delivered_at is null and withdrawn_at is null"
_STATUSES: dict[DeliveryStatus, str] = {
    "pending": f"{_UNDER_WAY} and last_error is null",
    "failed": f"{_UNDER_WAY} and last_error is not null",
    "delivered": "delivered_at is not null",
    "withdrawn": "withdrawn_at is not null",
}
_DOCUMENT = """target = %(target)s and run_id = %(run_id)s and cloud = %(cloud)s
                and project_id = %(project_id)s and sign = %(sign)s"""

# Of each document the sending that counts: the last one that was not withdrawn.
_LAST = """own.withdrawn_at is null and not exists (
                select from delivery.deliveries as later
                where later.target = own.target and later.run_id = own.run_id and later.cloud = own.cloud
                    and later.project_id = own.project_id and later.sign = own.sign and later.sending > own.sending
                    and later.withdrawn_at is null
            )"""


class DeliveryRow(NamedTuple):
    """One document on its way to one target, and how far it has come: its first sending, or one that was asked for."""

    target: str
    run_id: UUID
    cloud: str
    project_id: str
    sign: int
    sending: int
    period: str
    refers_to_run_id: UUID | None
    attempts: int
    attempted_at: datetime | None
    next_attempt_at: datetime
    last_error: str | None
    delivered_at: datetime | None
    receipt: str | None
    asked_at: datetime | None
    asked_by: str | None
    reason: str | None
    withdrawn_at: datetime | None
    withdrawn_by: str | None
    withdrawal_reason: str | None

    @property
    def key(self) -> ListKey:
        """Its place in a list."""
        return (self.target, self.run_id, self.cloud, self.project_id, self.sign, self.sending)

    @property
    def document(self) -> DocumentKey:
        """What is delivered."""
        return DocumentKey(self.period, self.run_id, self.cloud, self.project_id, self.sign)

    @property
    def document_type(self) -> DocumentType:
        """What the document is."""
        return document_type(self.sign, self.refers_to_run_id)

    @property
    def status(self) -> DeliveryStatus:
        """How far it has come."""
        if self.delivered_at is not None:
            return "delivered"
        if self.withdrawn_at is not None:
            return "withdrawn"
        return "pending" if self.last_error is None else "failed"

    @property
    def is_under_way(self) -> bool:
        """Whether it will be tried again."""
        return self.status in ("pending", "failed")


class Progress(NamedTuple):
    """How many documents of a month a target has, and has not."""

    target: str
    period: str
    delivered: int
    pending: int
    failed: int


def enqueue(connection: Connection, target: str, first: str, now: datetime) -> int:
    """Give a target the documents of all finalized runs from a month on that it does not have; returns how many.

    A run is entered with all its documents in one statement: two at once enter it once.
    """
    return connection.execute(
        """with entered as (
               insert into delivery.enqueued_runs (target, run_id, enqueued_at)
               select %(target)s, run.id, %(now)s
               from ledger.runs as run
               where run.status = 'finalized' and run.period >= %(first)s
                   and not exists (
                       select from delivery.enqueued_runs as old where old.target = %(target)s and old.run_id = run.id
                   )
               order by run.id
               on conflict do nothing
               returning run_id
           )

           insert into delivery.deliveries (target, run_id, cloud, project_id, sign, period, load_id,
               refers_to_run_id, next_attempt_at)
           select %(target)s, bill.run_id, bill.cloud, bill.project_id, bill.sign, run.period, run.load_id,
               coalesce(bill.reverses_run_id, replaced.reverses_run_id), %(now)s
           from entered
           inner join ledger.runs as run on run.id = entered.run_id
           inner join ledger.bills as bill on bill.run_id = run.id
           left join ledger.bills as replaced
               on bill.sign = 1 and replaced.run_id = bill.run_id and replaced.cloud = bill.cloud
                   and replaced.project_id = bill.project_id and replaced.sign = -1""",
        {"target": target, "first": first, "now": now},
    ).rowcount


def anything_due(connection: Connection, target: str, first: str, now: datetime) -> bool:
    """Whether a target lacks the documents of a finalized run, or one of them is due."""
    row = connection.execute(
        f"""select exists (
               select from ledger.runs as run
               where run.status = 'finalized' and run.period >= %(first)s
                   and not exists (
                       select from delivery.enqueued_runs as old where old.target = %(target)s and old.run_id = run.id
                   )
           ) or exists (
               select from delivery.deliveries
               where target = %(target)s and {_UNDER_WAY} and next_attempt_at <= %(now)s
           )""".encode(),
        {"target": target, "first": first, "now": now},
    ).fetchone()
    return bool(row and row[0])


def delivered(connection: Connection, target: str, period: str) -> list[DocumentKey]:
    """The documents of a month that a target has, in the order in which they were issued."""
    rows = connection.execute(
        f"""select period, run_id, cloud, project_id, sign from delivery.deliveries as own
            where target = %s and period = %s and delivered_at is not null and {_LAST}
            order by load_id, sign, cloud, project_id""".encode(),
        [target, period],
    ).fetchall()
    return [DocumentKey(*row) for row in rows]


def send_again(
    connection: Connection, target: str, documents: Sequence[DocumentKey], actor: str, reason: str, now: datetime
) -> int:
    """Enter documents that a target has for another sending; returns how many. Two at once enter each once."""
    return connection.execute(
        f"""insert into delivery.deliveries (target, run_id, cloud, project_id, sign, sending, period, load_id,
                refers_to_run_id, next_attempt_at, asked_at, asked_by, reason)
            select target, run_id, cloud, project_id, sign, (
                    select max(every.sending) + 1
                    from delivery.deliveries as every
                    where every.target = own.target and every.run_id = own.run_id and every.cloud = own.cloud
                        and every.project_id = own.project_id and every.sign = own.sign
                ), period, load_id, refers_to_run_id, %(now)s, %(now)s, %(actor)s, %(reason)s
            from delivery.deliveries as own
            inner join unnest(%(runs)s::uuid[], %(clouds)s::text[], %(projects)s::text[], %(signs)s::smallint[])
                as asked (run_id, cloud, project_id, sign) using (run_id, cloud, project_id, sign)
            where target = %(target)s and delivered_at is not null and {_LAST}
            on conflict do nothing""".encode(),
        {
            "target": target, "now": now, "actor": actor, "reason": reason,
            "runs": [key.run_id for key in documents], "clouds": [key.cloud for key in documents],
            "projects": [key.project_id for key in documents], "signs": [key.sign for key in documents],
        },
    ).rowcount  # fmt: skip


def sent_again(connection: Connection, target: str, period: str) -> list[DocumentKey]:
    """The documents of a month that are under way to a target that has had them before."""
    rows = connection.execute(
        f"""select period, run_id, cloud, project_id, sign from delivery.deliveries
            where target = %s and period = %s and sending > 1 and {_UNDER_WAY}
            order by load_id, sign, cloud, project_id""".encode(),
        [target, period],
    ).fetchall()
    return [DocumentKey(*row) for row in rows]


def withdraw(connection: Connection, target: str, key: DocumentKey, actor: str, reason: str, now: datetime) -> bool:
    """End the sending of a document that is under way again; whether there was one. The caller holds the document."""
    return bool(
        connection.execute(
            f"""update delivery.deliveries
                set withdrawn_at = %(now)s, withdrawn_by = %(actor)s, withdrawal_reason = %(reason)s
                where {_DOCUMENT} and sending > 1 and {_UNDER_WAY}""".encode(),
            {"target": target, "actor": actor, "reason": reason, "now": now} | key._asdict(),
        ).rowcount
    )


def undelivered(
    connection: Connection, target: str, period: str | None, due_at: datetime | None
) -> Iterator[DocumentKey]:
    """Walk once through what a target does not have, in the order in which it was issued; reversals come first.

    ``due_at`` leaves out what waits for a later attempt.
    """
    after: tuple[Any, ...] = (-1, 0, "", "")
    while True:
        rows = connection.execute(
            f"""select load_id, sign, cloud, project_id, period, run_id
               from delivery.deliveries
               where target = %(target)s and {_UNDER_WAY}
                   and (%(period)s::text is null or period = %(period)s)
                   and (%(due_at)s::timestamptz is null or next_attempt_at <= %(due_at)s)
                   and (load_id, sign, cloud, project_id) > (%(load_id)s, %(sign)s, %(cloud)s, %(project_id)s)
               order by load_id, sign, cloud, project_id
               limit %(page)s""".encode(),
            {"target": target, "period": period, "due_at": due_at, "page": _PAGE}
            | dict(zip(("load_id", "sign", "cloud", "project_id"), after, strict=True)),
        ).fetchall()
        for _, sign, cloud, project_id, its_period, run_id in rows:
            yield DocumentKey(its_period, run_id, cloud, project_id, sign)
        if len(rows) < _PAGE:
            return
        after = rows[-1][:4]


@contextmanager
def held(connection: Connection, target: str, key: DocumentKey) -> Iterator[bool]:
    """Hold a document while it is on its way to a target; whether nobody else does."""
    row = connection.execute("select pg_try_advisory_lock(%s)", [_lock(target, key)]).fetchone()
    mine = bool(row and row[0])
    try:
        yield mine
    finally:
        if mine:
            _let_go(connection, target, key)


@contextmanager
def awaited(connection: Connection, target: str, key: DocumentKey) -> Iterator[None]:
    """Hold a document as soon as nobody else does."""
    connection.execute("select pg_advisory_lock(%s)", [_lock(target, key)])
    try:
        yield
    finally:
        _let_go(connection, target, key)


def _lock(target: str, key: DocumentKey) -> int:
    return int.from_bytes(hashlib.sha256(f"{target}\n{key.number}".encode()).digest()[:8], signed=True)


def _let_go(connection: Connection, target: str, key: DocumentKey) -> None:
    connection.execute("select pg_advisory_unlock(%s)", [_lock(target, key)])


def claim(connection: Connection, target: str, key: DocumentKey, now: datetime) -> tuple[int, BillingDocument] | None:
    """Count an attempt, and read what is to be sent: (attempts, document). The caller holds the document.

    None if it has been delivered or withdrawn meanwhile; or if an earlier document of the same project and month is
    still under way: a credit note never arrives before its invoice.
    """
    claimed = connection.execute(
        f"""update delivery.deliveries as own set attempts = attempts + 1, attempted_at = %(now)s
            where {_DOCUMENT} and {_UNDER_WAY}
                and not exists (
                    select from delivery.deliveries as earlier
                    where earlier.target = own.target and earlier.cloud = own.cloud
                        and earlier.project_id = own.project_id and earlier.period = own.period
                        and earlier.delivered_at is null and earlier.withdrawn_at is null
                        and (earlier.load_id, earlier.sign) < (own.load_id, own.sign)
                )
            returning attempts, refers_to_run_id""".encode(),
        {"target": target, "now": now} | key._asdict(),
    ).fetchone()
    return None if claimed is None else (claimed[0], _document(connection, key, claimed[1]))


def _document(connection: Connection, key: DocumentKey, refers_to_run_id: UUID | None) -> BillingDocument:
    row = connection.execute(
        """select bill.platform, bill.total, bill.currency, run.finalized_at, bill.document, bill.document_hash,
               earlier.document_hash
           from ledger.bills as bill
           inner join ledger.runs as run on run.id = bill.run_id
           left join ledger.bills as earlier
               on earlier.run_id = %(refers_to)s and earlier.cloud = bill.cloud
                   and earlier.project_id = bill.project_id and earlier.sign = 1
           where bill.run_id = %(run_id)s and bill.cloud = %(cloud)s and bill.project_id = %(project_id)s
               and bill.sign = %(sign)s""",
        key._asdict() | {"refers_to": refers_to_run_id},
    ).fetchone()
    assert row is not None, "what is finalized stays"
    platform, total, currency, issued_at, bill, bill_hash, refers_to_hash = row
    return BillingDocument(
        key, platform, Decimal(total), currency, issued_at, bill, bill_hash, refers_to_run_id, refers_to_hash
    )


def mark_delivered(connection: Connection, target: str, key: DocumentKey, receipt: str, now: datetime) -> None:
    """Note that a target keeps a document."""
    connection.execute(
        f"""update delivery.deliveries set delivered_at = %(now)s, receipt = %(receipt)s, last_error = null
            where {_DOCUMENT} and {_UNDER_WAY}""".encode(),
        {"target": target, "receipt": receipt, "now": now} | key._asdict(),
    )


def mark_failed(connection: Connection, target: str, key: DocumentKey, error: str, next_attempt_at: datetime) -> None:
    """Note why a target does not have a document yet, and when it is tried again."""
    connection.execute(
        f"""update delivery.deliveries set last_error = %(error)s, next_attempt_at = %(next)s
            where {_DOCUMENT} and {_UNDER_WAY}""".encode(),
        {"target": target, "error": error, "next": next_attempt_at} | key._asdict(),
    )


def progress(connection: Connection, period: str | None, target: str | None) -> list[Progress]:
    """How far each target is with each month: each document once, however often it was sent."""
    rows = connection.execute(
        f"""select target, period, count(*) filter (where {_STATUSES["delivered"]}),
                count(*) filter (where {_STATUSES["pending"]}), count(*) filter (where {_STATUSES["failed"]})
            from delivery.deliveries as own
            where (%(period)s::text is null or period = %(period)s)
                and (%(target)s::text is null or target = %(target)s) and {_LAST}
            group by target, period order by target, period""".encode(),
        {"period": period, "target": target},
    ).fetchall()
    return [Progress(*row) for row in rows]


def deliveries(
    connection: Connection,
    *,
    period: str | None = None,
    target: str | None = None,
    status: DeliveryStatus | None = None,
    after: ListKey | None = None,
    limit: int,
) -> list[DeliveryRow]:
    """Return the next deliveries after a key, in the order of (target, run_id, cloud, project_id, sign, sending)."""
    order = "target, run_id, cloud, project_id, sign, sending"
    where = ["true"]
    where += ["period = %(period)s"] if period else []
    where += ["target = %(target)s"] if target else []
    where += [_STATUSES[status]] if status else []
    where += [f"({order}) > ({', '.join(f'%(after_{place})s' for place in range(len(after)))})"] if after else []
    query = f"""select {", ".join(DeliveryRow._fields)} from delivery.deliveries
                where {" and ".join(where)} order by {order} limit %(limit)s"""
    values = {f"after_{place}": value for place, value in enumerate(after or ())}
    rows = connection.execute(
        query.encode(), {"period": period, "target": target, "limit": limit} | values, prepare=False
    ).fetchall()
    return [DeliveryRow(*row) for row in rows]


class Backlog(NamedTuple):
    """What a target does not have: ``pending`` documents were not tried yet, or not since they were asked for again."""

    target: str
    pending: int
    failed: int
    oldest: datetime | None  # when the first of them was issued, or asked for again


def backlog(connection: Connection) -> list[Backlog]:
    """What each target lacks that has ever been delivered to, with what no delivery has looked for yet."""
    rows = connection.execute(
        f"""with targets as (
                select entered.target, min(run.period) as first
                from delivery.enqueued_runs as entered
                inner join ledger.runs as run on run.id = entered.run_id
                group by entered.target
            ),

            lacking as (
                select own.target, own.last_error, coalesce(own.asked_at, run.finalized_at) as since
                from delivery.deliveries as own
                inner join ledger.runs as run on run.id = own.run_id
                where {_UNDER_WAY}
                union all
                select target, null, run.finalized_at
                from targets
                inner join ledger.runs as run on run.status = 'finalized' and run.period >= targets.first
                inner join ledger.bills as bill on bill.run_id = run.id
                where not exists (
                    select from delivery.enqueued_runs as old where old.target = targets.target and old.run_id = run.id
                )
            )

            select target, count(since) filter (where last_error is null), count(last_error), min(since)
            from targets
            left join lacking using (target)
            group by target order by target""".encode()
    ).fetchall()
    return [Backlog(*row) for row in rows]
