"""SQL about what a finalized run does not know: resources with later events, and what counts for them so far."""

from collections import defaultdict
from collections.abc import Collection
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple
from uuid import UUID

from tally.domain.run import Run
from tally.domain.usage import Gain
from tally.store.database import Connection

Resource = tuple[str, str, str]  # (cloud, resource_type, resource_id)

# Events that came after the run's load and could change its records (rule 18). One before the end of the period can.
# So can one at its very end that ends a life, or where there is usage, which counts where a life ends (rule 15). A
# later one can where it decides whether a synthetic event of the period is void: a synthetic create only if a
# collector's create follows, a synthetic delete as long as it is open. A collector's create or delete decides that, and
# so does the first sign of life, unless a synthetic create stands between them: else a busy resource that was once
# taken for deleted would keep every month from being finalized. And one right after the period can take the first
# sample of a series away from a life that ended in it.
_SYNTHETIC = """
    with effects as (
        select platform, resource_type, event_type, effect, rank() over (
            partition by platform, resource_type order by version desc
        ) as age
        from raw.lifecycles
    ),

    told as (
        select distinct e.cloud, e.resource_type, e.resource_id, e.timestamp, does.effect
        from raw.events as e
        inner join raw.lifecycles as does
            on does.platform = e.platform and does.resource_type = e.resource_type
                and does.event_type = e.event_type and does.effect in ('create', 'delete')
        where e.source = 'reconciliation' and e.timestamp <= %(period_to)s
    ),

    synthetic as (
        select told.cloud, told.resource_type, told.resource_id,
            bool_or(told.effect = 'create') as created,
            max(coalesce(decided.at, 'infinity')) filter (where told.effect = 'delete') as open_until
        from told
        left join lateral (
            select x.timestamp as at
            from raw.events as x
            inner join effects as does
                on does.platform = x.platform and does.resource_type = x.resource_type
                    and does.event_type = x.event_type and does.age = 1
            where told.effect = 'delete'
                and x.cloud = told.cloud and x.resource_type = told.resource_type and x.resource_id = told.resource_id
                and x.timestamp > told.timestamp and x.source = 'collector' and (
                    does.effect in ('create', 'delete')
                    or (does.effect in ('update', 'usage') and not exists (
                        select from raw.events as y
                        inner join raw.lifecycles as opens
                            on opens.platform = y.platform and opens.resource_type = y.resource_type
                                and opens.event_type = y.event_type and opens.effect = 'create'
                        where y.cloud = told.cloud and y.resource_type = told.resource_type
                            and y.resource_id = told.resource_id and y.source = 'reconciliation'
                            and y.timestamp between told.timestamp and x.timestamp)))
            order by x.timestamp limit 1
        ) as decided on true
        group by told.cloud, told.resource_type, told.resource_id)"""
_OUTSIDE = """
    from raw.events as e
    left join synthetic as s
        on s.cloud = e.cloud and s.resource_type = e.resource_type and s.resource_id = e.resource_id
    where e.load_id > %(load_id)s and (
        e.timestamp < %(period_to)s
        or (e.timestamp = %(period_to)s and (
            exists (
                select from raw.lifecycles as does
                where does.platform = e.platform and does.resource_type = e.resource_type
                    and does.event_type = e.event_type and does.effect = 'delete')
            or exists (
                select from raw.events as used
                where used.cloud = e.cloud and used.resource_type = e.resource_type
                    and used.resource_id = e.resource_id and used.timestamp = e.timestamp
                    and used.payload -> 'usage' not in ('null', '{}'))))
        or e.timestamp <= s.open_until
        or (s.created and exists (
            select from raw.events as c
            inner join raw.lifecycles as does
                on does.platform = c.platform and does.resource_type = c.resource_type
                    and does.event_type = c.event_type and does.effect = 'create'
            where c.cloud = e.cloud and c.resource_type = e.resource_type and c.resource_id = e.resource_id
                and c.source = 'collector' and c.timestamp >= e.timestamp))
        or (e.timestamp <= (
            select max(fetched.reach_to) from raw.counter_sources as fetched where fetched.fetch_id = %(fetch_id)s)
            and exists (
                select from raw.counter_increments as i
                where i.cloud = e.cloud and i.resource_type = e.resource_type and i.resource_id = e.resource_id
                    and i.fetch_id = %(fetch_id)s)))"""

_ASKED = "unnest(%b::text[], %b::text[], %b::text[]) as asked (cloud, resource_type, resource_id)"


class Counted(NamedTuple):
    """What counts of a resource in a project: the minutes of its usage, and its costs."""

    minutes: Decimal
    amount: Decimal


def resources_outside(connection: Connection, run: Run, limit: int) -> list[Resource]:
    """Resources with loaded events that came after the run's load and could change its records."""
    return connection.execute(
        f"{_SYNTHETIC} select distinct e.cloud, e.resource_type, e.resource_id {_OUTSIDE} order by 1, 2, 3"
        " limit %(limit)s".encode(),
        _outside(run) | {"limit": limit},
        prepare=False,
    ).fetchall()


def events_outside(connection: Connection, run: Run) -> int:
    """How many loaded events came after the run's load and could change its records."""
    query = f"{_SYNTHETIC} select count(*) {_OUTSIDE}"
    row = connection.execute(query.encode(), _outside(run), prepare=False).fetchone()
    assert row is not None
    return int(row[0])


def known_events(
    connection: Connection, run: Run, resources: Collection[Resource]
) -> dict[Resource, set[tuple[datetime, str]]]:
    """(timestamp, event_id) of the events that the run has read, by resource."""
    rows = connection.execute(
        f"""select e.cloud, e.resource_type, e.resource_id, e.timestamp, e.event_id
            from {_ASKED}
            inner join raw.events as e
                on e.cloud = asked.cloud and e.resource_type = asked.resource_type
                    and e.resource_id = asked.resource_id
            where e.load_id <= %s""".encode(),
        [*_columns(resources), run.load_id],
        prepare=False,
    ).fetchall()
    found: dict[Resource, set[tuple[datetime, str]]] = defaultdict(set)
    for cloud, resource_type, resource_id, timestamp, event_id in rows:
        found[cloud, resource_type, resource_id].add((timestamp, event_id))
    return found


def counted(
    connection: Connection, run: Run, resources: Collection[Resource]
) -> dict[Resource, dict[str, Counted]]:
    """What counts as of the run, by resource and project."""
    minutes = _sums(connection, "effective_usage_records", "(t.usage ->> 'minutes')::numeric", run.id, resources)
    amounts = _sums(connection, "effective_rated_records", "t.amount", run.id, resources)
    found: dict[Resource, dict[str, Counted]] = defaultdict(dict)
    for key in minutes.keys() | amounts.keys():
        resource, project_id = key
        found[resource][project_id] = Counted(minutes.get(key, Decimal(0)), amounts.get(key, Decimal("0.00")))
    return found


def gains(connection: Connection, run: Run, resources: Collection[Resource]) -> dict[Resource, list[Gain]]:
    """What the sampled counters that the run has kept gained, by resource."""
    if run.counter_fetch_id is None:
        return {}
    rows = connection.execute(
        f"""select i.cloud, i.resource_type, i.resource_id, gained.since, gained.at, s.metric, gained.quantity
            from {_ASKED}
            inner join raw.counter_increments as i
                on i.cloud = asked.cloud and i.resource_type = asked.resource_type
                    and i.resource_id = asked.resource_id
            inner join raw.counter_sources as s on s.fetch_id = i.fetch_id and s.source = i.source
            cross join unnest(i.since, i.at, i.quantity) as gained (since, at, quantity)
            where i.fetch_id = %s and s.failure is null""".encode(),
        [*_columns(resources), run.counter_fetch_id],
        prepare=False,
    ).fetchall()
    found: dict[Resource, list[Gain]] = defaultdict(list)
    for cloud, resource_type, resource_id, *gain in rows:
        found[cloud, resource_type, resource_id].append(Gain(*gain))
    return found


def _sums(
    connection: Connection, view: str, value: str, run_id: UUID, resources: Collection[Resource]
) -> dict[tuple[Resource, str], Decimal]:
    rows = connection.execute(
        f"""select t.cloud, t.resource_type, t.resource_id, t.project_id, sum({value})
            from {_ASKED}
            inner join ledger.{view} as t
                on t.cloud = asked.cloud and t.resource_type = asked.resource_type
                    and t.resource_id = asked.resource_id
            where t.as_of_run_id = %s
            group by t.cloud, t.resource_type, t.resource_id, t.project_id""".encode(),
        [*_columns(resources), run_id],
        prepare=False,
    ).fetchall()
    return {((cloud, kind, id_), project_id): total for cloud, kind, id_, project_id, total in rows}


def _columns(resources: Collection[Resource]) -> list[list[str]]:
    return [[resource[place] for resource in resources] for place in range(3)]


def _outside(run: Run) -> dict[str, object]:
    return {"load_id": run.load_id, "period_to": run.period_to, "fetch_id": run.counter_fetch_id}
