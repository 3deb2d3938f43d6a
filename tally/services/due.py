"""What is due: the decisions that sensors and schedules ask for. They read and decide; to launch is the caller's.

How a month is closed, finalized or corrected belongs to runs.py and finalize.py, how a cloud is reconciled to
reconcile.py.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.finalize import refusals
from tally.services.late import finalized_periods, late_relations
from tally.store.database import Connection
from tally.store.metering import runs as run_store
from tally.store.metering.late import events_outside
from tally.store.reporting import arrivals
from tally.store.reporting.arrivals import LastHeard
from tally.store.reporting.syncs import LastSync


@dataclass(frozen=True, slots=True)
class Late:
    """What a finalized period does not know, by where it is; ``run`` is the last one whose records count."""

    period: str
    run: Run
    loaded: int  # events in the metering database
    waiting: int  # events that wait for a load
    relations: int

    @property
    def found(self) -> bool:
        """Whether there is anything to correct for."""
        return bool(self.loaded or self.waiting or self.relations)

    @property
    def news(self) -> str:
        """What is late, in words; the same for the same news."""
        told = [
            (self.loaded + self.waiting, "late event(s)"),
            (self.relations, "late version(s) of relations between projects"),
        ]
        return " and ".join(f"{count} {what}" for count, what in told if count) or "nothing"


def current_period(now: datetime, zone: str) -> BillingPeriod:
    """Return the month that contains an instant."""
    local = now.astimezone(ZoneInfo(zone))
    return BillingPeriod(local.year, local.month, zone)


def last_closable(now: datetime, zone: str, grace: timedelta) -> BillingPeriod:
    """Return the newest period whose grace is over."""
    period = _before(current_period(now, zone))
    while period.end + grace > now:
        period = _before(period)
    return period


def closes(live: Sequence[Run], zone: str, grace: timedelta, now: datetime) -> list[BillingPeriod]:
    """Return the periods that wait for the close after their grace, the oldest first.

    Metering begins with the oldest period that has a live run, or else with the newest that can be closed: what was
    before Tally is not billed. A period that was closed after its grace by hand does not wait.
    """
    last = last_closable(now, zone, grace)
    by_period = {run.period: run for run in live}
    first = min((BillingPeriod.parse(name, zone) for name in by_period), default=last)
    due = []
    while first <= last:
        run = by_period.get(str(first))
        if run is None or (run.status != "finalized" and run.started_at < first.end + grace):
            due.append(first)
        first = first.next
    return due


def closes_due(metering: Connection, zone: str, grace: timedelta, now: datetime) -> list[BillingPeriod]:
    """Return the periods that wait for the close after their grace (``closes``)."""
    return closes(run_store.live_runs(metering), zone, grace, now)


def finalizations_due(
    reporting: Connection, metering: Connection, zone: str, grace: timedelta, now: datetime
) -> dict[Run, list[str]]:
    """Return each closed run whose grace is over, with what speaks against finalizing it: nothing, if it is due."""
    runs = [run for run in run_store.live_runs(metering) if run.status == "completed" and not run.preliminary]
    return {
        run: refusals(reporting, metering, run, BillingPeriod.parse(run.period, zone), grace, now)
        for run in sorted(runs, key=lambda run: run.period)
        if run.period_to + grace <= now
    }


def late(reporting: Connection, metering: Connection) -> list[Late]:
    """Tell of every finalized period, the oldest first, what has arrived that its records do not know."""
    periods = finalized_periods(metering)
    waiting = arrivals.waiting_before(reporting, [period.end for period in periods])
    return [_late(reporting, metering, period.period, count) for period, count in zip(periods, waiting, strict=True)]


def syncs(
    last: Sequence[LastSync], platforms: Collection[str], every: timedelta, now: datetime
) -> list[str]:
    """Return the clouds that are due to be reconciled: those of these platforms whose last sync is long enough ago."""
    return [
        sync.cloud
        for sync in last
        if sync.platform in platforms and (sync.started_at is None or sync.started_at + every <= now)
    ]


def silent(reporting: Connection, silence: timedelta, now: datetime) -> list[LastHeard]:
    """Return the clouds whose collector has been silent for longer than ``silence``."""
    return arrivals.silent_clouds(reporting, now - silence)


def _late(reporting: Connection, metering: Connection, period: str, waiting: int) -> Late:
    run = run_store.latest_run(metering, period)
    assert run is not None, period
    loaded = events_outside(metering, run)
    return Late(period, run, loaded, waiting, len(late_relations(reporting, metering, run)))


def _before(period: BillingPeriod) -> BillingPeriod:
    years, month = divmod(period.month - 2, 12)
    return BillingPeriod(period.year + years, month + 1, period.zone)
