"""SQL of the dead letters: raw bytes of what could not be taken, once per (cloud, event_id, content)."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, LiteralString, NamedTuple

from tally.store.database import Connection

TALLY_FORMAT = "tally"

Key = tuple[str, str, bytes]  # (cloud, event_id, content_hash)


class DeadLetter(NamedTuple):
    """What could not be taken and why; texts are empty where the input does not tell."""

    cloud: str
    event_id: str
    content_hash: bytes
    reason: str
    detail: str
    raw: bytes
    platform: str
    resource_type: str
    format: str = TALLY_FORMAT

    @property
    def key(self) -> Key:
        """Once per this."""
        return (self.cloud, self.event_id, self.content_hash)


class LetterRow(NamedTuple):
    """A dead letter as it is listed: without its bytes, but with their number."""

    id: int
    cloud: str
    event_id: str
    platform: str
    resource_type: str
    format: str
    reason: str
    detail: str
    size_bytes: int
    received_at: datetime
    replayed_at: datetime | None


class KeptLetter(NamedTuple):
    """A dead letter with its number, as a replay reads it."""

    id: int
    letter: DeadLetter


class Filing(NamedTuple):
    """What is known by now of a dead letter that was kept under something else."""

    id: int
    key: Key
    platform: str
    resource_type: str


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Which dead letters; None is any. ``received_from`` is inclusive, ``received_to`` exclusive."""

    reason: str | None = None
    cloud: str | None = None
    platform: str | None = None
    resource_type: str | None = None
    received_from: datetime | None = None
    received_to: datetime | None = None
    replayed: bool | None = None


def add(connection: Connection, letters: Iterable[DeadLetter]) -> None:
    """Keep letters. One that is kept already gets the latest reason, and counts as not yet replayed.

    Its bytes stay those of the first time, and with them the format that they are in.
    """
    latest = {letter.key: letter for letter in letters}
    if not latest:
        return
    columns = zip(*(latest[key] for key in sorted(latest)), strict=True)
    connection.execute(
        """
        insert into reporting.rejected_events as kept
            (cloud, event_id, content_hash, reason, detail, raw, platform, resource_type, format)
        select *
        from unnest(
            %b::text[], %b::text[], %b::bytea[], %b::text[], %b::text[], %b::bytea[], %b::text[], %b::text[], %b::text[]
        )
        on conflict (cloud, event_id, content_hash) do update set
            reason = excluded.reason,
            detail = excluded.detail,
            format = case when kept.raw = excluded.raw then excluded.format else kept.format end,
            replayed_at = null
        """,
        [list(column) for column in columns],
    )


def select_letters(
    connection: Connection, which: LetterFilter, *, after: int | None = None, limit: int | None = None
) -> list[LetterRow]:
    """Return letters, the newest number first, those with a number below ``after``, at most ``limit``."""
    conditions, values = _conditions(which)
    if after is not None:
        conditions.append("id < %s")
        values.append(after)
    rows = connection.execute(
        b"select id, cloud, event_id, platform, resource_type, format, reason, detail, octet_length(raw), received_at,"
        b" replayed_at from reporting.rejected_events" + _where(conditions) + b" order by id desc limit %s",
        [*values, limit],
        prepare=False,
    ).fetchall()
    return [LetterRow(*row) for row in rows]


def select_letter(connection: Connection, letter_id: int) -> tuple[LetterRow, bytes] | None:
    """Return one letter and its bytes."""
    row = connection.execute(
        "select id, cloud, event_id, platform, resource_type, format, reason, detail, octet_length(raw), received_at,"
        " replayed_at, raw from reporting.rejected_events where id = %s",
        [letter_id],
    ).fetchone()
    return None if row is None else (LetterRow(*row[:-1]), row[-1])


def count_letters(connection: Connection, which: LetterFilter, *, after: int = 0) -> int:
    """Return how many letters there are with a number above ``after``."""
    conditions, values = _conditions(which)
    row = connection.execute(
        b"select count(*) from reporting.rejected_events" + _where([*conditions, "id > %s"]),
        [*values, after],
        prepare=False,
    ).fetchone()
    assert row is not None
    return int(row[0])


def letters_to_replay(
    connection: Connection, which: LetterFilter, *, after: int, limit: int, max_bytes: int
) -> list[KeptLetter]:
    """Return letters with their bytes by ascending number, from ``after`` on: at most ``limit``, which fit the memory.

    The first is returned however large it is.
    """
    conditions, values = _conditions(which)
    rows = connection.execute(
        b"with page as (select id, octet_length(raw) as bytes from reporting.rejected_events"
        + _where([*conditions, "id > %s"])
        + b" order by id limit %s),"
        b" summed as (select id, sum(bytes) over (order by id) - bytes as before, bytes from page)"
        b" select kept.id, kept.cloud, kept.event_id, kept.content_hash, kept.reason, kept.detail, kept.raw,"
        b" kept.platform, kept.resource_type, kept.format"
        b" from summed inner join reporting.rejected_events as kept using (id)"
        b" where before = 0 or before + bytes <= %s order by kept.id",
        [*values, after, limit, max_bytes],
        prepare=False,
    ).fetchall()
    return [KeptLetter(row[0], DeadLetter(*row[1:])) for row in rows]


def file_under(connection: Connection, filings: Sequence[Filing]) -> set[int]:
    """File letters under what is known of them by now, and return the ids of those that were.

    One whose new key another letter has is left as it is. Rows are locked in the order of their keys, as ``add`` does.

    Raises:
        psycopg.errors.UniqueViolation: if another session files a letter under one of the keys at the same time.
    """
    if not filings:
        return set()
    filed = connection.execute(
        """
        with given as (
            select distinct on (cloud, event_id, content_hash) *
            from unnest(%s::bigint[], %s::text[], %s::text[], %s::bytea[], %s::text[], %s::text[])
                as named (id, cloud, event_id, content_hash, platform, resource_type)
            order by cloud, event_id, content_hash, id
        ),
        locked as (
            select kept.id
            from reporting.rejected_events as kept
            inner join given on given.id = kept.id
            where not exists (
                select from reporting.rejected_events as other
                where other.cloud = given.cloud
                    and other.event_id = given.event_id
                    and other.content_hash = given.content_hash
            )
            order by kept.cloud, kept.event_id, kept.content_hash
            for update of kept
        )
        update reporting.rejected_events as kept set
            cloud = given.cloud,
            event_id = given.event_id,
            content_hash = given.content_hash,
            platform = given.platform,
            resource_type = given.resource_type
        from given
        inner join locked on locked.id = given.id
        where kept.id = given.id
        returning kept.id
        """,
        [list(column) for column in zip(*map(_columns, filings), strict=True)],
    ).fetchall()
    return {row[0] for row in filed}


def mark_replayed(connection: Connection, ids: Collection[int]) -> None:
    """Note that what these letters hold is stored, or is held by another letter; the first time counts."""
    if not ids:
        return
    connection.execute(
        """
        with locked as (
            select id
            from reporting.rejected_events
            where id = any(%s) and replayed_at is null
            order by cloud, event_id, content_hash
            for update
        )
        update reporting.rejected_events as kept set replayed_at = clock_timestamp()
        from locked
        where kept.id = locked.id
        """,
        [list(ids)],
    )


def _columns(filing: Filing) -> tuple[Any, ...]:
    return (filing.id, *filing.key, filing.platform, filing.resource_type)


def _conditions(which: LetterFilter) -> tuple[list[LiteralString], list[object]]:
    conditions: list[LiteralString] = []
    values: list[object] = []
    wanted: tuple[tuple[LiteralString, object], ...] = (
        ("reason = %s", which.reason),
        ("cloud = %s", which.cloud),
        ("platform = %s", which.platform),
        ("resource_type = %s", which.resource_type),
        ("received_at >= %s", which.received_from),
        ("received_at < %s", which.received_to),
    )
    for condition, value in wanted:
        if value is not None:
            conditions.append(condition)
            values.append(value)
    if which.replayed is not None:
        conditions.append("replayed_at is not null" if which.replayed else "replayed_at is null")
    return conditions, values


def _where(conditions: Sequence[LiteralString]) -> bytes:
    return (" where " + " and ".join(conditions)).encode() if conditions else b""
