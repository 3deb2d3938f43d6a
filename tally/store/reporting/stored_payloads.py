"""SQL that tells what the stored events of a resource type hold, grouped, so that a new definition can be held to it.

Events are read in the order of their key, up to a bound, so that the work is bounded for a table of any size.
"""

from collections.abc import Collection, Sequence
from typing import Any, Literal, NamedTuple

from tally.store.database import Connection
from tally.store.json_text import read_json


class Held(NamedTuple):
    """A value of size or state, in how many events of one type it stands, and an event that holds it."""

    event_type: str
    value: Any
    events: int


class Counted(NamedTuple):
    """The names of usage, and in how many events of one type they stand.

    ``broken`` says that some of it is no object of non-negative numbers.
    """

    event_type: str
    names: list[str]
    broken: bool
    events: int


def clouds_of(connection: Connection, platform: str) -> list[str]:
    """Return the names of the clouds of a platform."""
    rows = connection.execute(
        "select cloud from reporting.clouds where platform = %s order by cloud", [platform]
    ).fetchall()
    return [row[0] for row in rows]


def count_up_to(connection: Connection, clouds: Sequence[str], resource_type: str, bound: int) -> int:
    """Return how many events of a resource type are stored, but never more than ``bound``."""
    row = connection.execute(
        "select count(*) from (select from reporting.events where cloud = any(%s) and resource_type = %s limit %s) e",
        [list(clouds), resource_type, bound],
        prepare=False,
    ).fetchone()
    assert row is not None
    return int(row[0])


def event_types(
    connection: Connection, clouds: Sequence[str], resource_type: str, wanted: Collection[str], bound: int
) -> dict[str, int]:
    """Return how many of the first ``bound`` events are of each of the wanted event types, if any are."""
    rows = connection.execute(
        """
        with bounded as (
            select event_type
            from reporting.events
            where cloud = any(%s) and resource_type = %s
            limit %s
        )
        select event_type, count(*) as events
        from bounded
        where event_type = any(%s)
        group by event_type
        """,
        [list(clouds), resource_type, bound, list(wanted)],
        prepare=False,
    ).fetchall()
    return dict(rows)


def values(
    connection: Connection,
    clouds: Sequence[str],
    resource_type: str,
    key: Literal["size", "state"],
    wanted: Collection[str],
    *,
    bound: int,
    limit: int,
) -> list[Held]:
    """Return the values of a key of the payload in the first ``bound`` events, where it is given.

    Of the wanted event types only, and the ``limit`` most frequent ones.
    """
    rows = connection.execute(
        """
        with bounded as (
            select event_type, payload -> %s as value
            from reporting.events
            where cloud = any(%s) and resource_type = %s
            limit %s
        )
        select event_type, value::text as value, count(*) as events
        from bounded
        where event_type = any(%s) and value is not null and jsonb_typeof(value) <> 'null'
        group by event_type, bounded.value
        order by events desc, event_type, value
        limit %s
        """,
        [key, list(clouds), resource_type, bound, list(wanted), limit],
        prepare=False,
    ).fetchall()
    return [Held(event_type, read_json(value), events) for event_type, value, events in rows]


def counters(
    connection: Connection,
    clouds: Sequence[str],
    resource_type: str,
    wanted: Collection[str],
    *,
    bound: int,
    limit: int,
) -> list[Counted]:
    """Return the names of usage in the first ``bound`` events: of the wanted event types, the most frequent ones."""
    rows = connection.execute(
        """
        with bounded as (
            select event_type, payload -> 'usage' as usage
            from reporting.events
            where cloud = any(%s) and resource_type = %s
            limit %s
        ),
        named as (
            select
                event_type,
                case when jsonb_typeof(usage) = 'object'
                    then array(select key from jsonb_object_keys(usage) as keys (key) order by key)
                    else '{}'
                end as names,
                jsonb_typeof(usage) <> 'object'
                or jsonb_path_exists(usage, '$.* ? (@.type() != "number" || @ < 0)') as broken
            from bounded
            where event_type = any(%s) and usage is not null and jsonb_typeof(usage) <> 'null'
        )
        select event_type, names, broken, count(*) as events
        from named
        group by event_type, names, broken
        order by events desc, event_type, names
        limit %s
        """,
        [list(clouds), resource_type, bound, list(wanted), limit],
        prepare=False,
    ).fetchall()
    return [Counted(*row) for row in rows]
