"""Rows of ledger.findings: written, added up, judged. What each kind means is docs/reference/findings.md's."""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from psycopg.rows import class_row

from tally.domain.completeness import Action, Found, Group
from tally.domain.run import Finding, Run
from tally.store.database import Connection
from tally.store.metering.runs import members

_BY_RUN = """
    insert into ledger.findings (run_id, kind, cloud, platform, resource_type, subject, detail)
    select run_id, kind, cloud, platform, resource_type, subject, min(detail)
    from metering.int_findings where run_id = %s
    group by run_id, kind, cloud, platform, resource_type, subject"""


class Unmetered(NamedTuple):
    """A resource of the inventory that lived in a period, from its first to its last instant there."""

    cloud: str
    platform: str
    resource_type: str
    resource_id: str
    state: str
    size: dict[str, Any]
    from_ts: datetime
    to_ts: datetime


def write_findings(connection: Connection, run_id: UUID) -> int:
    """Write what dbt has found for the running run; returns how many."""
    return connection.execute(_BY_RUN, [run_id]).rowcount


def insert_findings(connection: Connection, run_id: UUID, found: Iterable[Found]) -> None:
    """Add what was found otherwise; what the run has already stays as it is."""
    connection.cursor().executemany(
        """insert into ledger.findings
               (run_id, kind, cloud, platform, resource_type, subject, detail, count, at_risk)
           values (%s, %s, %s, %s, %s, %s, %s, %s, %s) on conflict do nothing""",
        [
            (run_id, f.kind, f.cloud, f.platform, f.resource_type, f.subject, f.detail, f.count, f.at_risk)
            for f in found
        ],
    )


def delete_kinds(connection: Connection, run_id: UUID, kinds: Collection[str]) -> None:
    """Take away findings of some kinds, before they are written anew."""
    connection.execute("delete from ledger.findings where run_id = %s and kind = any(%s)", [run_id, list(kinds)])


def groups(connection: Connection, run_id: UUID, examples: int, without: Collection[str] = ()) -> list[Group]:
    """Findings of a run, added up by (kind, cloud), but for those of some kinds."""
    rows = connection.execute(
        """
        select
            kind, cloud, sum(count)::bigint,
            (array_agg(
                concat_ws(' ', nullif(platform, ''), nullif(resource_type, ''), nullif(subject, '')) || ': ' || detail
                order by platform, resource_type, subject
            ))[1:%(examples)s],
            sum(at_risk), coalesce(sum(count) filter (where at_risk is null), 0)::bigint
        from ledger.findings
        where run_id = %(run_id)s and kind <> all(%(without)s)
        group by kind, cloud
        order by kind, cloud""",
        {"run_id": run_id, "examples": examples, "without": list(without)},
    ).fetchall()
    return [Group(kind, cloud, count, tuple(shown), *rest) for kind, cloud, count, shown, *rest in rows]


def stored_actions(connection: Connection, run_id: UUID) -> dict[tuple[str, str], Action]:
    """What the policy said of each (kind, cloud) as the findings of a run were judged last."""
    rows = connection.execute(
        """select kind, cloud,
               case when bool_or(blocking) then 'block' when bool_and(ignored) then 'ignore' else 'warn' end
           from ledger.findings where run_id = %s group by kind, cloud""",
        [run_id],
    ).fetchall()
    return {(kind, cloud): action for kind, cloud, action in rows}


def judge(connection: Connection, run_id: UUID, actions: Sequence[tuple[str, str, Action]]) -> None:
    """Write what becomes of the findings of a run by (kind, cloud); refused once the run is finalized."""
    columns = [list(column) for column in zip(*actions, strict=True)] or [[], [], []]
    connection.execute(
        """update ledger.findings as f set
               blocking = (judged.action = 'block'),
               ignored = (judged.action = 'ignore')
           from unnest(%s::text[], %s::text[], %s::text[]) as judged (kind, cloud, action)
           where f.run_id = %s and f.kind = judged.kind and f.cloud = judged.cloud
               and (f.blocking, f.ignored) is distinct from (judged.action = 'block', judged.action = 'ignore')""",
        [*columns, run_id],
    )


def select_findings(connection: Connection, run_id: UUID, limit: int = 1000) -> list[Finding]:
    """The findings of a run that are not ignored, blocking ones first."""
    query = """
        select kind, blocking, cloud, platform, resource_type, subject, detail, count, at_risk
        from ledger.findings where run_id = %s and not ignored
        order by blocking desc, kind, cloud, platform, resource_type, subject limit %s"""
    with connection.cursor(row_factory=class_row(Finding)) as cursor:
        return cursor.execute(query, [run_id, limit]).fetchall()


def judged_run(connection: Connection, period: str) -> UUID | None:
    """The newest run of a period whose findings count: a live one, or one that was refused because of them."""
    row = connection.execute(
        """select id from ledger.runs as r
           where period = %s and (
               status in ('completed', 'finalized')
               or (status = 'failed' and exists (select from ledger.findings as f where f.run_id = r.id)))
           order by started_at desc, load_id desc limit 1""",
        [period],
    ).fetchone()
    return row[0] if row else None


def unmetered_resources(connection: Connection, run: Run) -> Iterable[Unmetered]:
    """Resources that lived in the period as the inventory of the last load has it, and that no record of it is of."""
    rows = connection.execute(
        """
        select
            r.cloud, r.platform, r.resource_type, r.resource_id, r.last_state, r.size,
            greatest(r.created_at, %(period_from)s), least(r.deleted_at, %(metered_to)s)
        from raw.current_resources as r
        where
            r.created_at < %(metered_to)s
            and (r.deleted_at is null or (r.deleted_at > %(period_from)s and r.deleted_at > r.created_at))
            and not exists (
                select from ledger.usage_records as u
                where
                    u.run_id = any(%(members)s)
                    and u.cloud = r.cloud and u.resource_type = r.resource_type and u.resource_id = r.resource_id
            )
        order by r.cloud, r.platform, r.resource_type, r.resource_id""",
        {
            "members": members(connection, run.id),
            "period_from": run.period_from,
            "metered_to": run.metered_to,
        },
    )
    return map(Unmetered._make, rows)


def unknown_resources(connection: Connection, run: Run) -> list[Found]:
    """Resources that were metered and that the inventory does not know, with what they cost, by type and cloud."""
    rows = connection.execute(
        """
        select u.cloud, u.platform, u.resource_type, count(distinct u.resource_id), min(u.resource_id),
            coalesce(sum(rated.amount), 0)
        from ledger.usage_records as u
        left join ledger.rated_records as rated
            on rated.cloud = u.cloud and rated.resource_type = u.resource_type and rated.resource_id = u.resource_id
            and rated.usage_record_id = u.id
        where
            u.run_id = any(%(members)s)
            and not exists (
                select from raw.current_resources as r
                where r.cloud = u.cloud and r.resource_type = u.resource_type and r.resource_id = u.resource_id
            )
        group by u.cloud, u.platform, u.resource_type
        order by u.cloud, u.platform, u.resource_type""",
        {"members": members(connection, run.id)},
    ).fetchall()
    return [
        Found(
            "metered_not_listed", cloud, platform, resource_type, "inventory",
            f"{count} resource(s) were metered and are not in the inventory, such as {example}", count, amount,
        )
        for cloud, platform, resource_type, count, example, amount in rows
    ]
