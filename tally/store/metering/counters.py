"""Rows of raw.counter_*: fetches of sampled counters, the samples while they come in, and what they add up to.

What a sample means is tally.domain.samples' business, when it is fetched that of tally.services.counters.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import groupby
from typing import NamedTuple
from uuid import UUID

from tally.domain.counter import CounterSource
from tally.domain.period import BillingPeriod
from tally.domain.samples import Gap, Increment, Sample, from_milliseconds
from tally.store.database import Connection

# What only the runs that count need; the rows of the fetch itself stay.
_BIG = ("counter_samples", "counter_increments", "counter_series", "counter_gaps")
_PART = 5000  # increments in one row

Window = tuple[datetime, datetime]  # half-open


class Reach(NamedTuple):
    """A source, the longest gap that it lets pass, and from when to when it is fetched."""

    source: CounterSource
    max_gap: timedelta
    start: datetime
    end: datetime


class SampleRow(NamedTuple):
    """Some samples of one replica of a series, in the order of time."""

    cloud: str
    resource_type: str
    resource_id: str
    series_id: UUID
    replica_id: UUID
    series: str
    at_ms: Sequence[int]
    value: Sequence[int | Decimal]


class Series(NamedTuple):
    """One series, and the resource that it measures."""

    cloud: str
    resource_type: str
    resource_id: str
    series_id: UUID
    series: str


class Counted(NamedTuple):
    """What one series came to. Its first five fields are those of Series."""

    cloud: str
    resource_type: str
    resource_id: str
    series_id: UUID
    series: str
    first_ms: int
    last_ms: int
    samples: int          # after replicas were made one
    increments: Sequence[Increment]
    gaps: Sequence[Gap]


class Summary(NamedTuple):
    """What was fetched for a run."""

    sources: int
    samples: int
    series: int
    content_hash: str | None
    failures: list[str]      # source and reason, one line each


def summary_of_run(metering: Connection, run_id: UUID) -> Summary:
    """What was fetched for a run; zeros if nothing was."""
    row = metering.execute(
        """with mine as (select counter_fetch_id as fetch_id from ledger.runs where id = %s)
           select (select count(*) from raw.counter_sources inner join mine using (fetch_id)),
               (select coalesce(sum(samples), 0)::bigint from raw.counter_windows inner join mine using (fetch_id)),
               (select count(*) from raw.counter_series inner join mine using (fetch_id)),
               (select content_hash from raw.counter_fetches inner join mine using (fetch_id)),
               array(select source || ': ' || failure from raw.counter_sources inner join mine using (fetch_id)
                     where failure is not null order by source)""",
        [run_id],
    ).fetchone()
    assert row is not None
    return Summary(*row)


def unfinished(
    metering: Connection, period: BillingPeriod, configuration_hash: str, not_before: datetime
) -> int | None:
    """The fetch of the same configuration that was broken off last, if it is not too old to go on with."""
    row = metering.execute(
        """select fetch_id from raw.counter_fetches
           where period = %s and period_from = %s and configuration_hash = %s and started_at >= %s
               and completed_at is null and not dropped
           order by fetch_id desc limit 1""",
        [str(period), period.start, configuration_hash, not_before],
    ).fetchone()
    return row[0] if row else None


def begin(
    metering: Connection, period: BillingPeriod, configuration_hash: str, reaches: Iterable[Reach], now: datetime
) -> int:
    """Write the rows of a new fetch and of its sources."""
    row = metering.execute(
        """insert into raw.counter_fetches (fetch_id, period, period_from, configuration_hash, started_at)
           select coalesce(max(fetch_id), 0) + 1, %s, %s, %s, %s from raw.counter_fetches
           returning fetch_id""",
        [str(period), period.start, configuration_hash, now],
    ).fetchone()
    assert row is not None
    metering.cursor().executemany(
        """insert into raw.counter_sources (fetch_id, source, platform, resource_type, metric, selector, unit, clouds,
               states, max_gap, reach_from, reach_to)
           values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)""",
        [
            (
                row[0], source.name, source.platform, source.resource_type, source.metric, source.selector, source.unit,
                list(source.clouds), list(source.states) if source.states else None, max_gap, start, end,
            )
            for source, max_gap, start, end in reaches
        ],
    )  # fmt: skip
    return int(row[0])


def resume(metering: Connection, fetch_id: int, reaches: Iterable[Reach]) -> None:
    """Go on with a fetch, perhaps to a later end: what was said of its sources' failures no longer counts."""
    metering.cursor().executemany(
        "update raw.counter_sources set reach_to = %s, failure = null where fetch_id = %s and source = %s",
        [(reach.end, fetch_id, reach.source.name) for reach in reaches],
    )


def drop_unused(metering: Connection, keep: int) -> None:
    """Let go what was fetched for runs that no longer count; the present fetch stays."""
    unused = [
        row[0]
        for row in metering.execute(
            """select fetch_id from raw.counter_fetches as f
               where not dropped and fetch_id <> %s and not exists (
                   select from ledger.runs as r
                   where r.counter_fetch_id = f.fetch_id and r.status in ('running', 'completed', 'finalized'))""",
            [keep],
        )
    ]
    for table in _BIG:
        metering.execute(f"delete from raw.{table} where fetch_id = any(%s)".encode(), [unused])
    metering.execute("update raw.counter_fetches set dropped = true where fetch_id = any(%s)", [unused])


def fetched_windows(metering: Connection, fetch_id: int, source: str) -> dict[Window, bool]:
    """The windows of a source that have been fetched, and whether each was over by then."""
    rows = metering.execute(
        """select from_ts, to_ts, fetched_at >= to_ts from raw.counter_windows
           where fetch_id = %s and source = %s order by from_ts""",
        [fetch_id, source],
    )
    return {(from_ts, to_ts): over for from_ts, to_ts, over in rows}


def forget_window(metering: Connection, fetch_id: int, source: str, window: Window) -> None:
    """Let go what was fetched of a window."""
    for table in ("counter_samples", "counter_windows"):
        metering.execute(
            f"delete from raw.{table} where fetch_id = %s and source = %s and from_ts = %s".encode(),
            [fetch_id, source, window[0]],
        )


def write_window(
    metering: Connection,
    fetch_id: int,
    source: str,
    window: Window,
    rows: Iterable[SampleRow],
    now: datetime,
) -> int:
    """Write the samples of a window as they come, and that it is fetched; the caller holds a transaction."""
    count = 0
    key = "cloud, resource_type, resource_id, fetch_id, source, series_id, replica_id, from_ts, part"
    with metering.cursor().copy(f"copy raw.counter_samples ({key}, series, at_ms, value) from stdin".encode()) as copy:
        for part, row in enumerate(rows):
            copy.write_row(
                (
                    row.cloud, row.resource_type, row.resource_id, fetch_id, source, row.series_id, row.replica_id,
                    window[0], part, row.series, _array(row.at_ms), _array(row.value),
                )
            )  # fmt: skip
            count += len(row.at_ms)
    metering.execute(
        """insert into raw.counter_windows (fetch_id, source, from_ts, to_ts, fetched_at, samples)
           values (%s, %s, %s, %s, %s, %s)""",
        [fetch_id, source, *window, now, count],
    )
    return count


def fail_source(metering: Connection, fetch_id: int, source: str, failure: str) -> None:
    """Note why a source could not be fetched, and keep nothing of it: half a month would pass for a whole one."""
    metering.execute(
        "update raw.counter_sources set failure = %s where fetch_id = %s and source = %s", [failure, fetch_id, source]
    )
    for table in ("counter_samples", "counter_windows"):
        metering.execute(f"delete from raw.{table} where fetch_id = %s and source = %s".encode(), [fetch_id, source])


def count_samples(metering: Connection, fetch_id: int) -> int:
    """How many samples were fetched."""
    row = metering.execute(
        "select coalesce(sum(samples), 0)::bigint from raw.counter_windows where fetch_id = %s", [fetch_id]
    ).fetchone()
    assert row is not None
    return int(row[0])


def all_series(metering: Connection, fetch_id: int, source: str) -> Iterator[tuple[Series, list[list[Sample]]]]:
    """Each series of a source with the samples of its replicas, one at a time; the caller holds a transaction."""
    with metering.cursor(name="counter_samples") as cursor:
        cursor.itersize = 20
        cursor.execute(
            """select cloud, resource_type, resource_id, series_id, replica_id, series, at_ms, value
               from raw.counter_samples where fetch_id = %s and source = %s
               order by cloud, resource_type, resource_id, series_id, replica_id, from_ts, part""",
            [fetch_id, source],
        )
        rows = map(SampleRow._make, cursor)
        for series, group in groupby(rows, _series):
            yield series, [_samples(replica) for _, replica in groupby(group, lambda row: row.replica_id)]


def write_counted(metering: Connection, fetch_id: int, source: str, counted: Sequence[Counted]) -> None:
    """Write what some series came to."""

    def keyed(one: Counted, *values: object) -> tuple[object, ...]:
        return (*one[:3], fetch_id, source, one.series_id, *values)

    series = (
        keyed(one, one.series, from_milliseconds(one.first_ms), from_milliseconds(one.last_ms), one.samples)
        for one in counted
    )
    _copy(metering, "counter_series", "series, first_at, last_at, samples", series)
    gaps = (
        keyed(one, from_milliseconds(gap.from_ms), from_milliseconds(gap.to_ms)) for one in counted for gap in one.gaps
    )
    _copy(metering, "counter_gaps", "from_ts, to_ts", gaps)
    increments = (
        keyed(
            one, start // _PART,
            _array(_text(each.since_ms) for each in part),
            _array(_text(each.at_ms) for each in part),
            _array(each.quantity for each in part),
        )
        for one in counted
        for start in range(0, len(one.increments), _PART)
        for part in [one.increments[start : start + _PART]]
    )  # fmt: skip
    _copy(metering, "counter_increments", "part, since, at, quantity", increments)


def complete(metering: Connection, fetch_id: int, now: datetime) -> str:
    """End a fetch: its samples go, and what it brought is hashed; returns the hash."""
    metering.execute("delete from raw.counter_samples where fetch_id = %s", [fetch_id])
    content_hash = fingerprint(metering, fetch_id)
    metering.execute(
        "update raw.counter_fetches set completed_at = %s, content_hash = %s where fetch_id = %s",
        [now, content_hash, fetch_id],
    )
    metering.execute("analyze raw.counter_increments, raw.counter_series, raw.counter_gaps")
    return content_hash


# By content, not by the number of the fetch. Hashed in buckets of resources, as the records of a run are.
_FINGERPRINT = """
    with lines as (
        select substr(md5(row(cloud, resource_type, resource_id)::text), 1, 3) as bucket,
            row('increments', cloud, resource_type, resource_id, source, series_id, part,
                array(select extract(epoch from each) from unnest(since) as each),
                array(select extract(epoch from each) from unnest(at) as each), quantity)::text as line
        from raw.counter_increments where fetch_id = %(fetch_id)s
        union all
        select substr(md5(row(cloud, resource_type, resource_id)::text), 1, 3),
            row('series', cloud, resource_type, resource_id, source, series_id, extract(epoch from first_at),
                extract(epoch from last_at), samples)::text
        from raw.counter_series where fetch_id = %(fetch_id)s
        union all
        select substr(md5(row(cloud, resource_type, resource_id)::text), 1, 3),
            row('gap', cloud, resource_type, resource_id, source, series_id, extract(epoch from from_ts),
                extract(epoch from to_ts))::text
        from raw.counter_gaps where fetch_id = %(fetch_id)s
        union all
        select 'sources',
            row(source, platform, resource_type, metric, selector, unit, clouds, states, max_gap,
                extract(epoch from reach_from), extract(epoch from reach_to), failure)::text
        from raw.counter_sources where fetch_id = %(fetch_id)s
    ),

    digests as (
        select bucket, sha256(convert_to(line, 'UTF8')) as digest from lines
    ),

    buckets as (
        select bucket, sha256(string_agg(digest, ''::bytea order by digest)) as digest
        from digests group by bucket
    )

    select encode(sha256(coalesce(string_agg(digest, ''::bytea order by bucket), ''::bytea)), 'hex') from buckets"""


def fingerprint(metering: Connection, fetch_id: int) -> str:
    """Hash of everything that a fetch brought, by content."""
    row = metering.execute(_FINGERPRINT, {"fetch_id": fetch_id}).fetchone()
    assert row is not None
    return str(row[0])


def _copy(metering: Connection, table: str, columns: str, rows: Iterable[tuple[object, ...]]) -> None:
    key = "cloud, resource_type, resource_id, fetch_id, source, series_id"
    statement = f"copy raw.{table} ({key}, {columns}) from stdin"
    with metering.cursor().copy(statement.encode()) as copy:
        for row in rows:
            copy.write_row(row)


def _series(row: SampleRow) -> Series:
    return Series(row.cloud, row.resource_type, row.resource_id, row.series_id, row.series)


def _samples(rows: Iterable[SampleRow]) -> list[Sample]:
    return [Sample(at, Decimal(value)) for row in rows for at, value in zip(row.at_ms, row.value, strict=True)]


def _text(at_ms: int | None) -> str:
    return "NULL" if at_ms is None else from_milliseconds(at_ms).isoformat()


def _array(values: Iterable[object]) -> str:
    """The text of an array of numbers or instants, none of which needs quotes."""
    return "{" + ",".join(map(str, values)) + "}"
