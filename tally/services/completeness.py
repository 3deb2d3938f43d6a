"""The completeness report of a run: what it has found, by kind and cloud, judged by the policy (rules 19 and 26).

This is the one gate between a run and its finalization: what blocks here is refused there, and nothing else is. What is
seen outside the run's inputs (rejected events, silence, listings, inventory) is seen anew for each report of a run
that is not finalized, and is kept with the run as it is completed and as it is finalized.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from tally.domain.completeness import EXAMPLES, OBSERVED_KINDS, Found, Line, Policy, Waiver, grouped, judged
from tally.domain.errors import InvalidEvent, InvalidInput, NotFound
from tally.domain.event import decode_json
from tally.domain.instants import format_instant, parse_instant
from tally.domain.run import Run
from tally.services.formats import read_input
from tally.services.pricing import version_named
from tally.services.unmetered import unmetered
from tally.store.database import Connection
from tally.store.metering import findings as store
from tally.store.metering import runs as run_store
from tally.store.metering.waivers import keep_with_run, select_waivers, waivers_of_runs
from tally.store.reporting import completeness as reporting_store
from tally.store.reporting.completeness import OpenLetter

# What a listing says of a period that ended longer ago tells nothing of that period.
_LISTINGS_AFTER = timedelta(days=31)


@dataclass(frozen=True, slots=True)
class Report:
    """What a run has found, line by line in the order of (kind, cloud); money is in ``currency``, if that is known."""

    run: Run
    currency: str | None
    at: datetime
    lines: tuple[Line, ...]

    @property
    def blocks(self) -> bool:
        """Whether anything stands in the way of finalization that is not waived."""
        return any(line.blocks for line in self.lines)


def report(reporting: Connection, metering: Connection, period: str, policy: Policy, now: datetime) -> Report:
    """Report on the newest run of a period whose findings count; nothing is written.

    That is the live run, the last correction, or a correction that was refused because of its findings. What a
    finalized or refused run has found is shown as it was judged then.

    Raises:
        NotFound: if the period has no such run.
    """
    run_id = store.judged_run(metering, period)
    if run_id is None:
        raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
    run = run_store.select_runs(metering, run_id=run_id)[0]
    if run.status != "completed":
        return kept_report(metering, run, now)
    found = grouped(observe(reporting, metering, run, policy))
    groups = store.groups(metering, run.id, EXAMPLES, without=OBSERVED_KINDS) + found
    waivers = select_waivers(metering, period)
    lines = [judged(group, policy.action(group.kind, group.count), waivers, now) for group in groups]
    return _report(metering, run, now, lines)


def kept_report(metering: Connection, run: Run, now: datetime) -> Report:
    """Report what was kept with a run, as it was judged then; a finalized one with the waivers that it was given."""
    waivers = select_waivers(metering, run.period)
    at = now
    if run.status == "finalized":
        waivers = waivers_of_runs(metering, [run.id]).get(run.id, [])
        at = run.finalized_at or now
    actions = store.stored_actions(metering, run.id)
    lines = [
        judged(group, actions[group.kind, group.cloud], waivers, at)
        for group in store.groups(metering, run.id, EXAMPLES)
    ]
    return _report(metering, run, at, lines)


def record(reporting: Connection, metering: Connection, run: Run, policy: Policy) -> None:
    """See anew what is seen outside a run, keep it with the run, and judge all its findings.

    A step of a run before its completion, and again before its finalization. A repeated call replaces its own.
    """
    found = observe(reporting, metering, run, policy)
    with metering.transaction():
        store.delete_kinds(metering, run.id, OBSERVED_KINDS)
        store.insert_findings(metering, run.id, found)
        groups = store.groups(metering, run.id, EXAMPLES)
        actions = [(group.kind, group.cloud, policy.action(group.kind, group.count)) for group in groups]
        store.judge(metering, run.id, actions)


def blocking(metering: Connection, run: Run, now: datetime) -> list[str]:
    """What a run was found to have that speaks against finalizing it and is not waived, one line a kind and cloud."""
    return [
        f"{line.count} finding(s) of kind {line.kind}, such as {' '.join(filter(None, [line.cloud, line.examples[0]]))}"
        f"; mend them, or waive them: tally waive {run.period} {line.kind} --reason ..."
        for line in kept_report(metering, run, now).lines
        if line.blocks
    ]


def keep_waivers(metering: Connection, run: Run, now: datetime) -> None:
    """Keep with a run the waivers by which it is about to be finalized."""
    used = [line.waiver.id for line in kept_report(metering, run, now).lines if line.waiver is not None]
    keep_with_run(metering, run.id, used)


def waivers_of(metering: Connection, runs: Sequence[Run]) -> dict[str, list[Waiver]]:
    """The waivers by which runs were finalized, by the ids of the runs as texts; runs without any are left out."""
    found = waivers_of_runs(metering, [run.id for run in runs])
    return {str(run_id): waivers for run_id, waivers in found.items()}


def observe(reporting: Connection, metering: Connection, run: Run, policy: Policy) -> list[Found]:
    """See what the inputs of a run do not tell: OBSERVED_KINDS. Nothing is written."""
    return [
        *_dead_letters(reporting, run),
        *_stale(reporting, run, policy),
        *_listings(reporting, run),
        *unmetered(metering, run),
        *store.unknown_resources(metering, run),
    ]


def _report(metering: Connection, run: Run, at: datetime, lines: Sequence[Line]) -> Report:
    currency = version_named(metering, run.pricing_version).currency if run.pricing_version else None
    return Report(run, currency, at, tuple(sorted(lines, key=lambda line: (line.kind, line.cloud))))


def _dead_letters(reporting: Connection, run: Run) -> Iterator[Found]:
    """One finding a cloud, resource type and reason. What such an event would have cost cannot be told."""
    ids: defaultdict[tuple[str, str, str, str], list[int]] = defaultdict(list)
    for letter in reporting_store.open_letters(reporting, run.period_from):
        if run.period_from <= _happened(letter) < run.metered_to:
            ids[letter.cloud, letter.platform, letter.resource_type, letter.reason].append(letter.id)
    for (cloud, platform, resource_type, reason), found in ids.items():
        told = f"{len(found)} rejected event(s), such as {', '.join(str(each) for each in found[:EXAMPLES])}"
        yield Found("dead_letter", cloud, platform, resource_type, reason, told, len(found))


def _happened(letter: OpenLetter) -> datetime:
    """When what a rejected event tells of happened: as it says, but not after it came; else when it came."""
    try:
        event = read_input(letter.format, letter.raw, letter.cloud) if letter.raw is not None else None
    except InvalidEvent:
        return min(_stamp(letter), letter.received_at)
    return min(event.timestamp, letter.received_at) if event is not None else letter.received_at


def _stamp(letter: OpenLetter) -> datetime:
    try:
        document = decode_json(letter.raw or b"")
        fields = document if isinstance(document, dict) else {}
        return parse_instant(str(fields.get("timestamp", fields.get("time"))))
    except (InvalidEvent, InvalidInput):
        return letter.received_at


def _stale(reporting: Connection, run: Run, policy: Policy) -> Iterator[Found]:
    """Clouds that still had resources at the end and from which nothing was heard any more.

    A reconciliation that came later counts: it has found what the silence hid. An event that came later does not.
    """
    synced = reporting_store.last_completed_syncs(reporting)
    for cloud, platform in reporting_store.living_clouds(reporting, run.metered_to):
        since = run.metered_to - policy.events_span(platform, cloud)
        if reporting_store.collector_fell_silent(reporting, cloud, since, run.metered_to):
            told = f"its collector sent nothing of {format_instant(since)} to {format_instant(run.metered_to)}"
            yield Found("stale_events", cloud, platform, "", "collector", told)
        since = run.metered_to - policy.sync_span(platform, cloud)
        if cloud in synced and synced[cloud] < since:
            told = f"last compared whole at {format_instant(synced[cloud])}, and not since {format_instant(since)}"
            yield Found("stale_sync", cloud, platform, "", "reconciliation", told)


def _listings(reporting: Connection, run: Run) -> Iterator[Found]:
    """What the last listing of the period found and could not write. Which resources these are, it does not keep."""
    begun_to = run.period_to + _LISTINGS_AFTER
    for last in reporting_store.listing_shortfalls(reporting, run.period_from, begun_to):
        where = (last.cloud, last.platform, last.resource_type, "listing")
        when = f"the listing of {format_instant(last.started_at)}"
        if last.rejected:
            told = f"{when} found {last.rejected} difference(s) that were rejected as events"
            yield Found("listed_not_metered", *where, told, last.rejected)
        if last.withheld:
            told = f"{when} lacked {last.withheld} resource(s) that were not closed, for they are too many"
            yield Found("metered_not_listed", *where, told, last.withheld)
