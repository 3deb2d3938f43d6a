"""The life of a run, from its load to its completion (rule 17). Finalization has a module of its own (finalize.py).

A run is made in steps, each by an asset: start (load, freeze the inputs), dbt derives usage, checks, write_usage,
dbt rates, checks, write_rated, bills, completeness.record, complete. Nothing of it is visible before complete, which
replaces the former run of the period in one transaction; whatever goes wrong on the way ends in fail, which takes its
records away.
"""

import hashlib
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from pricing.validity import Part
from tally import __version__
from tally.domain.errors import Blocked, NotFound, Refused, Unavailable
from tally.domain.instants import format_instant
from tally.domain.period import FIRST_METERED, BillingPeriod
from tally.domain.run import Check, Finding, PeriodStatus, PriceChange, Run, period_status
from tally.services import completeness
from tally.services.correct import NOTHING_SPECIAL, CorrectionRequest, about_correction
from tally.services.counters import Counters
from tally.services.load import load
from tally.services.pricing import price_parts, prices_for, prices_with, version_named
from tally.services.registry import current_registry
from tally.store.database import Connection
from tally.store.metering import corrections, drift, ledger
from tally.store.metering import findings as findings_store
from tally.store.metering import runs as store
from tally.store.metering.checks import invariant_names

Clock = Callable[[], datetime]

# The invariants of rule 16, and that the projection agrees with the timelines (rule 11).
REQUIRED_CHECKS = invariant_names()


@dataclass(frozen=True, slots=True)
class PeriodRow:
    """One period with its status, its live run, and the run as of which its records count: the last correction."""

    period: str
    status: PeriodStatus
    run: Run
    latest: Run


# What a person is told who waits for it: progress of a run shows lines that begin so.
WAITING = "another run is metering: this one waits until that has ended"


@contextmanager
def metering_lock(
    connection: Connection, wait: timedelta = timedelta(hours=6), say: Callable[[str], object] = lambda _: None
) -> Iterator[None]:
    """Hold the one right to load, derive, rate or finalize; it is gone with the connection, also on kill -9.

    ``say`` is told once if another run holds it.

    Raises:
        Unavailable: if another run holds it longer than ``wait``.
    """
    deadline = time.monotonic() + wait.total_seconds()
    told = False
    while not store.try_metering_lock(connection):
        if not told:
            say(WAITING)
            told = True
        if time.monotonic() > deadline:
            raise Unavailable(f"another run has been metering for more than {wait}; see `tally runs`")
        time.sleep(0.2)
    try:
        yield
    finally:
        store.release_metering_lock(connection)


def start(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    clock: Clock,
    counters: Counters | None = None,
    request: CorrectionRequest = NOTHING_SPECIAL,
) -> Run:
    """Load what has arrived and begin a run of the period with its inputs frozen; the caller holds the lock.

    ``counters`` are fetched anew, and are inputs like the events. A source of them that fails is a finding of the run.
    Of a finalized period the run is a correction: it has the price version and the counters of the finalized run,
    unless ``request`` asks for others.

    Raises:
        Refused: if the period has not begun, has no price version, or its zone would change; and of a correction, if
            what is asked for is in another currency, or counters are not there to be fetched.
        InvalidInput: if the sources of counters contradict the registry.
    """
    refuse_start(metering, period, clock(), request, can_count=counters is not None)
    finalized = finalized_runs(metering, str(period))
    if finalized and not request.counters:
        counters = None
    if counters is not None:
        counters.check(current_registry(reporting))
    # Of whatever period: they share dbt's tables, so what was left half made would go on with the records of this run.
    for abandoned in store.select_runs(metering, statuses=("running",)):
        fail(metering, abandoned.id, "abandoned: it was broken off before it was completed")
    loaded = load(reporting, metering, clock)
    inputs: dict[str, Any] = {
        "period": str(period),
        "period_from": period.start,
        "period_to": period.end,
        "zone": period.zone,
        "metered_to": min(period.end, loaded.started_at),
        "load_id": loaded.load_id,
        "registry_version": loaded.registry_version,
        "code_version": __version__,
    }
    about: dict[str, Any] = {"kind": "regular", "status": "running", "preliminary": loaded.started_at < period.end}
    if finalized:
        about |= about_correction(finalized, inputs, request)
    try:
        prices = _prices(metering, period, finalized, request)
    except Refused as refused:
        raise _unrated(metering, store.insert_run(metering, inputs | about), refused) from None
    inputs |= _rated_by(prices)
    if finalized:
        inputs |= {"counters_hash": finalized[-1].counters_hash}
    if counters is not None:
        fetched = counters.fetch(metering, period, loaded.started_at)
        if finalized and fetched.failures:
            # What is not there now may have been there when the period was finalized: it would be credited.
            raise Refused(f"{period} cannot be corrected by new counters", list(fetched.failures.values()))
        inputs |= {"counters_hash": fetched.content_hash}
        about |= {"counter_fetch_id": fetched.fetch_id}
    return store.insert_run(metering, inputs | about | {"inputs_hash": hash_inputs(inputs)})


def running(metering: Connection, period: BillingPeriod) -> Run:
    """Return the run that is being made for a period.

    Raises:
        NotFound: if none is; the load begins one.
    """
    run = store.running_run(metering, str(period))
    if run is None:
        raise NotFound(f"no run of {period} is being made; launch the job close_month, or materialize raw_events first")
    return run


def fail(metering: Connection, run_id: UUID, failure: str, *, keep_findings: bool = False) -> None:
    """End a run and take its records away: nothing of it stays in the ledger but its row and the reason.

    Its findings stay if it failed because of them: somebody has to read them, to mend or to waive them. A run that is
    completed cannot fail any more, whatever goes wrong after that.
    """
    with metering.transaction():
        if store.mark_failed(metering, run_id, failure):
            store.delete_records(metering, run_id, keep_findings=keep_findings)


@contextmanager
def making(metering: Connection, run: Run) -> Iterator[None]:
    """Fail the run if the block raises."""
    try:
        yield
    except Exception as error:
        failure = " ".join(str(error).split())[:1000] or type(error).__name__
        fail(metering, run.id, failure, keep_findings=isinstance(error, Blocked))
        raise


def record_checks(metering: Connection, run: Run, checks: Sequence[Check]) -> None:
    """Record verdicts; a violation ends the run with the names of the checks (rule 16)."""
    violated = [check for check in checks if not check.passed]
    if violated:
        fail(metering, run.id, "; ".join(f"check {check.name}: {check.detail}" for check in violated))
    with metering.transaction():
        store.replace_checks(metering, run.id, checks)


def write_usage(metering: Connection, run: Run) -> int:
    """Write the usage records and the findings of the run; a repeated call replaces its own records."""
    with metering.transaction():
        store.delete_usage(metering, run.id)
        findings_store.write_findings(metering, run.id)
    if run.kind == "correction":
        return corrections.write_usage(metering, run, corrected_run(metering, run).id)
    return ledger.write_usage(metering, run.id)


def write_rated(metering: Connection, run: Run) -> int:
    """Write the rated records of the run, and how far they have drifted; a repeated call replaces its own."""
    with metering.transaction():
        store.delete_rated(metering, run.id)
        findings_store.delete_kinds(metering, run.id, [drift.KIND])
    if run.kind != "correction":
        count = ledger.write_rated(metering, run.id)
        drift.write_drift(metering, run.id)
        return count
    corrected = corrected_run(metering, run).id
    count = corrections.write_rated(metering, run, corrected)
    drift.write_drift(metering, run.id, store.members(metering, corrected))
    return count


def complete(metering: Connection, run: Run, clock: Clock) -> Run:
    """Make the run the live one of its period; the former one is superseded and its records go, all in one transaction.

    A correction is finalized at once, since what it corrects is.

    Raises:
        Refused: naming the checks that are missing or failed.
        Blocked: naming the findings that block a correction.
    """
    passed = {check.name for check in store.select_checks(metering, run.id) if check.passed}
    missing = sorted(REQUIRED_CHECKS - passed)
    if missing:
        raise Refused(f"run {run.id} cannot be completed", [f"check {name} has not passed" for name in missing])
    outputs_hash = ledger.fingerprint(metering, run.id)
    if run.kind == "correction":
        return _complete_correction(metering, run, outputs_hash, clock())
    with metering.transaction():
        former = store.live_run(metering, run.period)
        if former is not None:
            store.mark_superseded(metering, former.id)
        store.mark_completed(metering, run.id, outputs_hash, clock())
        if former is not None:
            store.delete_records(metering, former.id)
    return store.select_runs(metering, run_id=run.id)[0]


def _complete_correction(metering: Connection, run: Run, outputs_hash: str, now: datetime) -> Run:
    reasons = completeness.blocking(metering, run, now)
    if reasons:
        raise Blocked(f"the correction of {run.period} cannot be finalized", reasons)
    with metering.transaction():
        completeness.keep_waivers(metering, run, now)
        store.mark_completed(metering, run.id, outputs_hash, now)
        store.mark_finalized(metering, run.id, now)
    return store.select_runs(metering, run_id=run.id)[0]


def finalized_runs(metering: Connection, period: str) -> list[Run]:
    """The finalized runs of a period, in their order: the regular one, then its corrections."""
    return sorted(store.select_runs(metering, period=period, statuses=("finalized",)), key=lambda run: run.load_id)


def corrected_run(metering: Connection, correction: Run) -> Run:
    """The finalized run, regular or itself a correction, that a running correction stands on."""
    return finalized_runs(metering, correction.period)[-1]


def runs(metering: Connection, period: BillingPeriod | None = None) -> list[Run]:
    """All runs, or those of one period, the newest first."""
    return store.select_runs(metering, period=str(period) if period else None)


def findings(metering: Connection, period: BillingPeriod) -> list[Finding]:
    """What the live run of a period found and a person should look at, blocking findings first; or nothing."""
    run = store.live_run(metering, str(period))
    return findings_store.select_findings(metering, run.id) if run else []


def periods(metering: Connection, grace: timedelta, clock: Clock) -> list[PeriodRow]:
    """Every period with a live run, the newest first."""
    corrections = store.select_runs(metering, kind="correction", statuses=("finalized",))
    last = {run.period: run for run in sorted(corrections, key=lambda run: run.load_id)}
    corrected = store.corrected_periods(metering)

    def row(run: Run) -> PeriodRow:
        status = period_status(
            clock(),
            run.period_to,
            run.period_to + grace,
            finalized=run.status == "finalized",
            corrected=run.period in corrected,
        )
        return PeriodRow(run.period, status, run, last.get(run.period, run))

    return sorted(map(row, store.live_runs(metering)), key=lambda row: row.period, reverse=True)


def _unrated(metering: Connection, run: Run, refused: Refused) -> Refused:
    """End a run that no price version holds for, listing what stays unrated: never zero, never another's price."""
    resources = [f"{count} {name}" for name, count in store.resources_of_period(metering, run)]
    reasons = [*refused.reasons, f"unrated: {', '.join(resources) or 'nothing, no resource lived in it'}"]
    error = Refused(f"no price version is valid for {run.period}", reasons)
    fail(metering, run.id, str(error))
    return error


def _prices(
    metering: Connection, period: BillingPeriod, finalized: Sequence[Run], request: CorrectionRequest
) -> tuple[Part, ...]:
    """The price versions of a run: by its month, or of a correction those which its period was finalized with."""
    if not finalized:
        return prices_for(metering, period)
    if request.price_version:
        return prices_with(metering, period, request.price_version)
    return price_parts(metering, finalized[-1])


def _rated_by(prices: Sequence[Part]) -> dict[str, Any]:
    """What a run keeps of its prices; what changes inside the month is an input only where something does."""
    first = prices[0].version
    changes: list[PriceChange] = [
        {
            "version": part.version.version,
            "hash": part.version.content_hash,
            "since": format_instant(part.from_ts),
        }
        for part in prices[1:]
    ]
    kept: dict[str, Any] = {"pricing_version": first.version, "pricing_hash": first.content_hash}
    return kept | ({"price_changes": changes} if changes else {})


def refuse_start(
    metering: Connection,
    period: BillingPeriod,
    now: datetime,
    request: CorrectionRequest = NOTHING_SPECIAL,
    *,
    can_count: bool = True,
) -> None:
    """Refuse a run that cannot begin, before anything is done for it; ``can_count``: counters can be fetched again.

    Raises:
        Refused: with every reason.
        NotFound: if a price version is asked for that is not loaded.
    """
    finalized = finalized_runs(metering, str(period))
    reasons = []
    if request != NOTHING_SPECIAL and not finalized:
        reasons.append("it is not finalized, so that there is nothing to correct; close it again")
    if str(period) < FIRST_METERED:
        reasons.append(f"the first month that can be is {FIRST_METERED}")
    if now <= period.start:
        reasons.append(f"it begins only at {format_instant(period.start)}")
    zones = {run.zone for run in store.select_runs(metering, statuses=("finalized",))} - {period.zone}
    if zones:
        reasons.append(f"finalized periods are in zone {zones.pop()}; TALLY_ZONE cannot change to {period.zone}")
    if request.counters and not can_count:
        reasons.append("no counters can be fetched again: set TALLY_VICTORIAMETRICS_URL and TALLY_COUNTER_SOURCES")
    if finalized and request.price_version:
        reasons += _other_currency(metering, finalized[-1], request.price_version)
    if reasons:
        raise Refused(f"{period} cannot be run", reasons)


def _other_currency(metering: Connection, finalized: Run, price_version: str) -> list[str]:
    """A reversal in one currency and a record in another would never add up (rule 25)."""
    billed = version_named(metering, finalized.pricing_version or "").currency
    asked = version_named(metering, price_version).currency
    return [] if asked == billed else [f"it was billed in {billed}, and price version {price_version} is in {asked}"]


def hash_inputs(inputs: dict[str, Any]) -> str:
    """Hash of what a run reads, whatever the order: what it names, and the content of what is not named by a number."""
    return hashlib.sha256(json.dumps(inputs, sort_keys=True, default=str).encode()).hexdigest()
