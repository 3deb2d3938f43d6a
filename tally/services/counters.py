"""Fetching sampled counters for a run (rule 15): window by window, resumable, and complete or with the reason why not.

A fetch is made anew for each run, since samples come late as events do; only one that was broken off is gone on with.
What samples add up to is tally.domain.samples' business; to which usage record an increment belongs is decided by dbt.
"""

import hashlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from uuid import UUID

from tally.domain.counter import CounterSource, series_key, windows
from tally.domain.errors import InvalidInput, Unavailable
from tally.domain.event import MAX_TEXT_BYTES
from tally.domain.period import BillingPeriod
from tally.domain.samples import Line, deduplicate, gaps, increments
from tally.services.counter_sources import check_against_registry
from tally.services.registry import Registry
from tally.store.database import Connection
from tally.store.metering import counters as store

RESUMABLE = timedelta(days=1)  # what was fetched longer ago may lack samples that came late
PAUSES = (1, 5)                # seconds before a window is tried again: a server that restarts fails no month
_BATCH = 50_000                # increments that are written at once


class SampleServer(Protocol):
    """What samples are fetched from."""

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """All samples of the selected series from ``start`` until before ``end``."""


@dataclass(frozen=True, slots=True)
class Fetched:
    """What was fetched for a run; sources that failed are findings of the run, and block its finalization."""

    fetch_id: int
    content_hash: str
    samples: int
    failures: Mapping[str, str]   # by the name of the source


@dataclass(frozen=True)
class Counters:
    """The sampled counters of an installation, and how to fetch them."""

    server: SampleServer
    sources: Sequence[CounterSource]
    max_gap: timedelta
    say: Callable[[str], None] = lambda line: None   # noqa: ARG005
    sleep: Callable[[float], None] = time.sleep

    def check(self, registry: Registry) -> None:
        """Refuse sources that the registry of resource types contradicts.

        Raises:
            InvalidInput: naming all of them.
        """
        check_against_registry(self.sources, registry)

    def fetch(self, metering: Connection, period: BillingPeriod, now: datetime) -> Fetched:
        """Fetch what a run of the period needs; ``now`` is the instant of its load. The caller holds the metering lock.

        A fetch that was broken off less than a day ago goes on where it was. A source that fails costs the run
        nothing but what it measures.
        """
        reaches = [self._reach(source, period, now) for source in self.sources]
        fetch_id = self._begin(metering, period, reaches, now)
        failures = {}
        for reach in reaches:
            try:
                self._fetch_source(metering, fetch_id, reach, now)
            except (InvalidInput, Unavailable) as error:
                failures[reach.source.name] = str(error)
                self.say(f"counters {reach.source.name} failed: {error}")
                with metering.transaction():
                    store.fail_source(metering, fetch_id, reach.source.name, str(error))
        samples = store.count_samples(metering, fetch_id)
        with metering.transaction():
            for reach in reaches:
                self._count_source(metering, fetch_id, reach)
            content_hash = store.complete(metering, fetch_id, now)
        return Fetched(fetch_id, content_hash, samples, failures)

    def _reach(self, source: CounterSource, period: BillingPeriod, now: datetime) -> store.Reach:
        """From before the period, for the baselines; until after it, for what spans a deletion at its end."""
        max_gap = source.max_gap or self.max_gap
        return store.Reach(source, max_gap, period.start - max_gap, min(period.end + max_gap, now))

    def _begin(
        self, metering: Connection, period: BillingPeriod, reaches: Sequence[store.Reach], now: datetime
    ) -> int:
        configuration = hashlib.sha256(repr([(reach.source, reach.max_gap) for reach in reaches]).encode()).hexdigest()
        with metering.transaction():
            fetch_id = store.unfinished(metering, period, configuration, now - RESUMABLE)
            if fetch_id is None:
                fetch_id = store.begin(metering, period, configuration, reaches, now)
            else:
                store.resume(metering, fetch_id, reaches)
            store.drop_unused(metering, keep=fetch_id)
        return fetch_id

    def _fetch_source(self, metering: Connection, fetch_id: int, reach: store.Reach, now: datetime) -> None:
        source = reach.source
        wanted = list(windows(reach.start, reach.end))
        fetched = store.fetched_windows(metering, fetch_id, source.name)
        usable = {window for window, over in fetched.items() if over} & set(wanted)
        for window in fetched.keys() - usable:
            with metering.transaction():
                store.forget_window(metering, fetch_id, source.name, window)
        for number, window in enumerate(wanted, start=1):
            if window in usable:
                continue
            count = self._retried(partial(self._fetch_window, metering, fetch_id, source, window, now))
            self.say(f"counters {source.name}: {number} of {len(wanted)} days, {count} samples")

    def _fetch_window(
        self, metering: Connection, fetch_id: int, source: CounterSource, window: store.Window, now: datetime
    ) -> int:
        lines = self.server.export(source.selector, *window)
        rows = (_sample_row(source, line) for line in lines if line.at_ms)
        with metering.transaction():
            return store.write_window(metering, fetch_id, source.name, window, rows, now)

    def _retried(self, attempt: Callable[[], int]) -> int:
        for pause in PAUSES:
            try:
                return attempt()
            except Unavailable as error:
                self.say(f"counters: {error}; again in {pause} s")
                self.sleep(pause)
        return attempt()

    def _count_source(self, metering: Connection, fetch_id: int, reach: store.Reach) -> None:
        """Turn the samples of a source into increments, one series in memory at a time."""
        batch: list[store.Counted] = []
        waiting = 0
        for series, replicas in store.all_series(metering, fetch_id, reach.source.name):
            samples = deduplicate(replicas)
            gained = increments(samples, reach.source.unit)
            span = (samples[0].at_ms, samples[-1].at_ms, len(samples))
            batch.append(store.Counted(*series, *span, gained, gaps(samples, reach.max_gap)))
            waiting += len(gained) + 1
            if waiting >= _BATCH:
                store.write_counted(metering, fetch_id, reach.source.name, batch)
                batch, waiting = [], 0
        store.write_counted(metering, fetch_id, reach.source.name, batch)


def _sample_row(source: CounterSource, line: Line) -> store.SampleRow:
    cloud = source.clouds[0] if source.cloud_label is None else _label(source.cloud_label, line)
    resource_id = _label(source.resource_label, line)
    series, replica = series_key(line.labels, source.replica_labels)
    return store.SampleRow(
        cloud, source.resource_type, resource_id, _hashed(series), _hashed(replica), series, line.at_ms, line.values
    )


def _label(name: str, line: Line) -> str:
    """The value of a label that says what a series measures.

    Raises:
        InvalidInput: if it is no name that an event could hold: nothing is passed over in silence.
    """
    value = line.labels.get(name, "")
    if not value or len(value.encode()) > MAX_TEXT_BYTES or not value.isprintable():
        raise InvalidInput(f"the selected series {_shown(line)} has no label {name} of 1 to {MAX_TEXT_BYTES} bytes")
    return value


def _shown(line: Line) -> str:
    return ", ".join(f"{name}={value}" for name, value in sorted(line.labels.items()))[:200]


def _hashed(text: str) -> UUID:
    return UUID(bytes=hashlib.sha256(text.encode()).digest()[:16])

