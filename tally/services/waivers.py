"""Waivers: who lets which kind of finding pass for a period, why, and until when. What they do is the report's."""

import re
from datetime import datetime

from tally.domain.completeness import KINDS, Policy, Waiver
from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant, parse_instant
from tally.domain.period import BillingPeriod
from tally.services.completeness import report
from tally.store.database import Connection
from tally.store.metering.waivers import insert_waiver, select_waivers
from tally.store.reporting import audit

_MONTH = re.compile(r"\d{4}-\d{2}", re.ASCII)


def waive(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    kind: str,
    reason: str,
    policy: Policy,
    actor: str,
    now: datetime,
    *,
    cloud: str = "",
    until: datetime | None = None,
) -> tuple[Waiver, bool]:
    """Let one kind of finding pass for a period, in one cloud or in all, and say whether that is new.

    It is audited. While an earlier waiver lets the same pass for as long, that one stays the one that counts.

    Raises:
        InvalidInput: without a reason, for an end that has passed, or if nothing of that kind blocks there.
        NotFound: if the period has no completed run.
    """
    faults = []
    if not reason.strip():
        faults.append("a waiver needs a reason why the findings may pass")
    if until is not None and until <= now:
        faults.append(f"a waiver until {format_instant(until)} would waive nothing: that has passed")
    if kind not in KINDS:
        faults.append(f"{kind[:60]!r} is no kind of finding; known are {', '.join(KINDS)}")
    if faults:
        raise InvalidInput("; ".join(faults))
    _refuse_idle(reporting, metering, period, kind, cloud, policy, now)
    for earlier in select_waivers(metering, str(period)):
        lasting = earlier.until is None or (until is not None and until <= earlier.until)
        if earlier.waives(kind, cloud, now) and lasting:
            return earlier, False
    with metering.transaction():
        waiver = insert_waiver(metering, str(period), kind, cloud, reason.strip(), actor, until, now)
        detail = {"kind": kind, "cloud": cloud, "reason": waiver.reason, "until": until and format_instant(until)}
        audit.record(reporting, actor, "waiver.create", str(period), detail)
    return waiver, True


def list_waivers(metering: Connection, period: str, *, after: int = 0, limit: int | None = None) -> list[Waiver]:
    """The waivers of a period, expired ones too, the oldest first, those with an id above ``after``."""
    return select_waivers(metering, period, after, limit)


def read_until(text: str, zone: str) -> datetime:
    """Read when a waiver ends: an instant, or a month, which is meant whole.

    Raises:
        InvalidInput: if it is neither.
    """
    if _MONTH.fullmatch(text):
        return BillingPeriod.parse(text, zone).end
    try:
        return parse_instant(text)
    except InvalidInput:
        example = "write a month such as 2026-05, or an instant such as 2026-05-01T00:00:00Z"
        raise InvalidInput(f"until {text[:60]!r} is no end of a waiver; {example}") from None


def _refuse_idle(
    reporting: Connection,
    metering: Connection,
    period: BillingPeriod,
    kind: str,
    cloud: str,
    policy: Policy,
    now: datetime,
) -> None:
    """A waiver in advance would let pass what nobody has looked at."""
    lines = [line for line in report(reporting, metering, str(period), policy, now).lines if line.action == "block"]
    if not any(line.kind == kind and cloud in {"", line.cloud} for line in lines):
        kinds = ", ".join(sorted({line.kind for line in lines})) or "nothing"
        where = f" in {cloud}" if cloud else ""
        raise InvalidInput(f"{period} has no blocking finding of kind {kind!r}{where}; what blocks it is {kinds}")
