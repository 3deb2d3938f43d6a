"""Rows of ledger.runs and ledger.checks; findings and waivers have modules of their own."""

from collections.abc import Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any
from uuid import UUID

from psycopg.rows import class_row
from psycopg.types.json import Jsonb

from tally.domain.run import Check, Run, RunKind, RunStatus
from tally.store.database import Connection

METERING_LOCK = 0x7A11_0002  # one run, load or finalization at a time: they share the timelines

_RUN = ", ".join(field.name for field in fields(Run))
# What a run writes, each before what it refers to.
RECORDS = ("bills", "adjustments", "attributions", "rated_records", "usage_records", "findings", "checks")


def insert_run(connection: Connection, values: dict[str, Any]) -> Run:
    """Begin a run; it stays invisible until it is completed."""
    values = {name: Jsonb(value) if isinstance(value, list) else value for name, value in values.items()}
    columns = ", ".join(values)
    marks = ", ".join(f"%({name})s" for name in values)
    query = f"insert into ledger.runs ({columns}) values ({marks}) returning {_RUN}"
    with connection.cursor(row_factory=class_row(Run)) as cursor:
        run = cursor.execute(query.encode(), values).fetchone()
    assert run is not None
    return run


def select_runs(
    connection: Connection,
    *,
    run_id: UUID | None = None,
    period: str | None = None,
    kind: RunKind | None = None,
    statuses: Sequence[RunStatus] | None = None,
) -> list[Run]:
    """Runs that are all that is asked for, the newest first."""
    query = f"""
        select {_RUN} from ledger.runs
        where (%(run_id)s::uuid is null or id = %(run_id)s)
            and (%(period)s::text is null or period = %(period)s)
            and (%(kind)s::text is null or kind = %(kind)s)
            and (%(statuses)s::text[] is null or status = any(%(statuses)s))
        order by started_at desc, id"""
    asked = {"run_id": run_id, "period": period, "kind": kind, "statuses": list(statuses) if statuses else None}
    with connection.cursor(row_factory=class_row(Run)) as cursor:
        return cursor.execute(query.encode(), asked).fetchall()


def live_runs(connection: Connection, period: str | None = None) -> list[Run]:
    """The completed or finalized regular runs, of all periods or of one: there is at most one a period."""
    return select_runs(connection, period=period, kind="regular", statuses=("completed", "finalized"))


def live_run(connection: Connection, period: str) -> Run | None:
    """The live run of a period."""
    return next(iter(live_runs(connection, period)), None)


def latest_run(connection: Connection, period: str) -> Run | None:
    """The run as of which the records of a period count: the last finalized correction, or else the live run."""
    corrections = select_runs(connection, period=period, kind="correction", statuses=("finalized",))
    return max(corrections, key=lambda run: run.load_id, default=None) or live_run(connection, period)


def members(connection: Connection, run_id: UUID) -> list[UUID]:
    """The runs whose records together make up what a run comes to: itself, and what a correction stands on."""
    rows = connection.execute("select member_id from ledger.run_sets where run_id = %s", [run_id]).fetchall()
    return [row[0] for row in rows]


def corrected_periods(connection: Connection) -> set[str]:
    """The periods of which a finalized correction has written something."""
    wrote = " or ".join(
        f"exists (select from ledger.{table} as t where t.run_id = run.id)"
        for table in ("usage_records", "rated_records", "attributions", "adjustments", "bills")
    )
    rows = connection.execute(
        f"""select distinct run.period from ledger.runs as run
            where run.kind = 'correction' and run.status = 'finalized' and ({wrote})""".encode()
    ).fetchall()
    return {row[0] for row in rows}


def running_run(connection: Connection, period: str) -> Run | None:
    """The run that is being made for a period."""
    return next(iter(select_runs(connection, period=period, statuses=("running",))), None)


def try_metering_lock(connection: Connection) -> bool:
    """Take the metering lock for this connection if nobody holds it."""
    row = connection.execute("select pg_try_advisory_lock(%s)", [METERING_LOCK]).fetchone()
    return bool(row and row[0])


def release_metering_lock(connection: Connection) -> None:
    """Give the metering lock back."""
    connection.execute("select pg_advisory_unlock(%s)", [METERING_LOCK])


def mark_failed(connection: Connection, run_id: UUID, failure: str) -> bool:
    """End a run that cannot be completed; whether it was still being made."""
    ended = connection.execute(
        "update ledger.runs set status = 'failed', failure = %s where id = %s and status = 'running'",
        [failure, run_id],
    )
    return ended.rowcount == 1


def mark_superseded(connection: Connection, run_id: UUID) -> None:
    """End a completed run that another one replaces."""
    connection.execute(
        "update ledger.runs set status = 'superseded' where id = %s and status = 'completed'", [run_id]
    )


def mark_completed(connection: Connection, run_id: UUID, outputs_hash: str, now: datetime) -> None:
    """Make a run the live one of its period."""
    connection.execute(
        "update ledger.runs set status = 'completed', outputs_hash = %s, completed_at = %s where id = %s",
        [outputs_hash, now, run_id],
    )


def mark_finalized(connection: Connection, run_id: UUID, now: datetime) -> None:
    """Make a run and its records immutable."""
    connection.execute(
        "update ledger.runs set status = 'finalized', finalized_at = %s where id = %s", [now, run_id]
    )


def delete_records(connection: Connection, run_id: UUID, *, keep_findings: bool = False) -> None:
    """Take away everything a run wrote, but for its findings if asked; triggers refuse it once it is finalized."""
    for table in [table for table in RECORDS if not (keep_findings and table == "findings")]:
        connection.execute(f"delete from ledger.{table} where run_id = %s".encode(), [run_id])


def delete_usage(connection: Connection, run_id: UUID) -> None:
    """Take away usage and findings, and the costs that hang on the usage."""
    for table in ("rated_records", "usage_records", "findings"):
        connection.execute(f"delete from ledger.{table} where run_id = %s".encode(), [run_id])


def delete_rated(connection: Connection, run_id: UUID) -> None:
    """Take away the costs of a run."""
    connection.execute("delete from ledger.rated_records where run_id = %s", [run_id])


def replace_checks(connection: Connection, run_id: UUID, checks: Sequence[Check]) -> None:
    """Record the verdicts of a run; a check that is run again replaces its former verdict."""
    names = [check.name for check in checks]
    connection.execute("delete from ledger.checks where run_id = %s and name = any(%s)", [run_id, names])
    connection.cursor().executemany(
        "insert into ledger.checks (run_id, name, passed, violations, detail) values (%s, %s, %s, %s, %s)",
        [(run_id, check.name, check.passed, check.violations, check.detail) for check in checks],
    )


def select_checks(connection: Connection, run_id: UUID) -> list[Check]:
    """The verdicts of a run."""
    query = "select name, passed, violations, detail from ledger.checks where run_id = %s order by name"
    with connection.cursor(row_factory=class_row(Check)) as cursor:
        return cursor.execute(query, [run_id]).fetchall()


def resources_of_period(connection: Connection, run: Run) -> list[tuple[str, int]]:
    """(platform.resource_type, count) of the resources that lived in the period of a run, as its load saw them."""
    return connection.execute(
        """select platform || '.' || resource_type, count(*)
           from raw.current_resources
           where created_at < %s and (deleted_at is null or deleted_at > %s)
           group by 1 order by 1""",
        [run.period_to, run.period_from],
    ).fetchall()
