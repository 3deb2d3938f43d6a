"""Rows of ledger.waivers, and those by which a run was finalized."""

from collections.abc import Collection, Sequence
from dataclasses import fields
from datetime import datetime
from uuid import UUID

from psycopg.rows import class_row

from tally.domain.completeness import Waiver
from tally.store.database import Connection

_WAIVER = ", ".join(field.name for field in fields(Waiver))


def insert_waiver(
    connection: Connection,
    period: str,
    kind: str,
    cloud: str,
    reason: str,
    actor: str,
    until: datetime | None,
    now: datetime,
) -> Waiver:
    """Record a waiver; it is never changed."""
    query = f"""
        insert into ledger.waivers (period, kind, cloud, reason, actor, until, created_at)
        values (%s, %s, %s, %s, %s, %s, %s) returning {_WAIVER}"""
    with connection.cursor(row_factory=class_row(Waiver)) as cursor:
        waiver = cursor.execute(query.encode(), [period, kind, cloud, reason, actor, until, now]).fetchone()
    assert waiver is not None
    return waiver


def select_waivers(connection: Connection, period: str, after: int = 0, limit: int | None = None) -> list[Waiver]:
    """The waivers of a period with an id above ``after``, the oldest first, at most ``limit``."""
    query = f"select {_WAIVER} from ledger.waivers where period = %s and id > %s order by id limit %s"
    with connection.cursor(row_factory=class_row(Waiver)) as cursor:
        return cursor.execute(query.encode(), [period, after, limit]).fetchall()


def keep_with_run(connection: Connection, run_id: UUID, waiver_ids: Collection[int]) -> None:
    """Keep which waivers a run is finalized by; to be called before it is."""
    connection.execute(
        "insert into ledger.run_waivers (run_id, waiver_id) select %s, unnest(%s::bigint[])",
        [run_id, sorted(set(waiver_ids))],
    )


def waivers_of_runs(connection: Connection, run_ids: Sequence[UUID]) -> dict[UUID, list[Waiver]]:
    """The waivers by which runs were finalized, the oldest first; runs without any are left out."""
    columns = ", ".join(f"w.{field.name}" for field in fields(Waiver))
    query = f"""
        select k.run_id, {columns}
        from ledger.run_waivers as k inner join ledger.waivers as w on w.id = k.waiver_id
        where k.run_id = any(%s) order by k.run_id, w.id"""
    found: dict[UUID, list[Waiver]] = {}
    for run_id, *values in connection.execute(query.encode(), [list(run_ids)]):
        found.setdefault(run_id, []).append(Waiver(*values))
    return found
