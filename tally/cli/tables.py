"""What the command line prints: tables for people. Numbers and documents are printed as services give them."""

from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from rich.console import Console

from tally.cli.grid import add as _add
from tally.cli.grid import instant as _instant
from tally.cli.grid import show as _print
from tally.cli.grid import signed as _signed
from tally.cli.grid import table as _table
from tally.domain.completeness import Waiver
from tally.domain.graph import Relation
from tally.domain.project import Project
from tally.domain.run import Finding, Run
from tally.services.completeness import Report
from tally.services.corrections import Differences
from tally.services.credentials import Credential
from tally.services.deliver import Outcome
from tally.services.handover import BroughtTogether
from tally.services.ingest_files import Summary
from tally.services.installation import Prepared
from tally.services.kickbacks import PartnerKickback
from tally.services.late_effect import Late
from tally.services.rejected import Replay
from tally.services.runs import PeriodRow
from tally.services.verify import Verified
from tally.store.metering.bills import IssuedBill
from tally.store.metering.deliveries import DeliveryRow, Progress
from tally.store.reporting.clouds import CloudRow
from tally.store.reporting.rejected import LetterRow


class BillFormat(StrEnum):
    """How bills are printed."""

    TABLE = "table"
    JSON = "json"


def summary(console: Console, made: Summary) -> None:
    """What became of the inputs, with the reasons of rejections and examples."""
    counts = f"accepted {made.accepted}, deduplicated {made.deduplicated}, rejected {made.rejected}"
    console.print(counts + (f", ignored {made.ignored}" if made.ignored else ""))
    for reason, count in made.reasons.most_common():
        console.print(f"  {reason}: {count}")
        examples = [f"{e.event_id}: {e.detail}" if e.event_id else e.detail for e in made.examples[reason]]
        for example in dict.fromkeys(examples):  # many lines of one file are often wrong in the same way
            console.print(f"    {example}", soft_wrap=True)


def bills(console: Console, rows: Sequence[IssuedBill], paths: Sequence[Path] | None = None) -> None:
    """Bills with their totals, and where their documents were written."""
    if not rows:
        console.print("no bills: no project used anything")
        return
    table = _table("Cloud", "Project", ">Total", "Currency")
    for row in rows:
        _add(table, row.cloud, row.project_id, f"{row.total:.2f}", row.currency)
    _print(console, table)
    if paths:
        console.print()
        console.print("Documents")
    for path in paths or ():
        console.print(str(path), soft_wrap=True)


def findings(console: Console, rows: Sequence[Finding]) -> None:
    """One line a kind, with the first finding of it; rows come with blocking ones first."""
    counts: Counter[str] = Counter()
    for row in rows:
        counts[row.kind] += row.count
    first = {row.kind: row for row in reversed(rows)}
    for kind, count in counts.items():
        row = first[kind]
        where = " ".join(text for text in (row.cloud, row.platform, row.resource_type, row.subject) if text)
        blocking = ", blocks finalizing" if row.blocking else ""
        others = f" (and {count - 1} more)" if count > 1 else ""
        console.print(f"finding {kind}{blocking}: {where}: {row.detail}{others}", soft_wrap=True)


def completeness(console: Console, report: Report) -> None:
    """One line a kind and cloud: what the policy makes of it, who waived it, and an example."""
    table = _table("Kind", "Cloud", ">Count", "Policy", "Waived", ">At risk", "Currency", "Example")
    for line in report.lines:
        money = "" if line.at_risk is None else f"{line.at_risk:.2f}{'+' if line.untold else ''}"
        currency = report.currency or "" if money else ""
        waived = f"by {line.waiver.actor}" if line.waiver else ""
        _add(table, line.kind, line.cloud, str(line.count), line.action, waived, money, currency, line.examples[0])
    _print(console, table)


def periods(console: Console, rows: Sequence[PeriodRow]) -> None:
    """Periods with their status and their live run; where there are none, how there come to be some."""
    if not rows:
        console.print("no month is closed; close one: tally close PERIOD")
        return
    table = _table("Period", "Status", "Run", "Completed", "Preliminary", "Prices")
    for row in rows:
        preliminary = "month to date" if row.run.preliminary else "no"
        completed = _instant(row.run.completed_at)
        _add(table, row.period, row.status, str(row.run.id), completed, preliminary, ", ".join(row.run.price_versions))
    _print(console, table)


def runs(console: Console, rows: Sequence[Run], waivers: Mapping[str, Sequence[Waiver]]) -> None:
    """Runs with what they read, what became of them, and the kinds of findings that were waived for them."""
    table = _table("Period", "Kind", "Status", "Run", "Started", "Completed", ">Load", "Prices", "Waived", "Failure")
    for run in rows:
        instants = _instant(run.started_at), _instant(run.completed_at)
        read = str(run.load_id), ", ".join(run.price_versions)
        waived = ", ".join(f"{waiver.kind} by {waiver.actor}" for waiver in waivers.get(str(run.id), ()))
        _add(table, run.period, run.kind, run.status, str(run.id), *instants, *read, waived, run.failure or "")
    _print(console, table)


def differences(console: Console, made: Differences) -> None:
    """What a correction has written, by project; amounts and minutes are what is added to or taken from the month."""
    console.print(f"correction {made.run.id}")
    if made.empty:
        console.print("nothing has changed; no records were written")
        return
    table = _table("Cloud", "Project", ">Reversed", ">New", ">Minutes", ">Amount", "Currency")
    for row in made.projects:
        counts = str(row.reversed_records), str(row.new_records)
        sums = _signed(row.minutes), f"{row.amount:+.2f}"
        _add(table, row.cloud, row.project_id, *counts, *sums, row.currency or "")
    if made.projects:
        _print(console, table)
    bills_made = made.bills
    console.print(
        f"bills: {bills_made.reversed_bills} taken back, {bills_made.new_bills} new, together {bills_made.total:+.2f}"
    )


def late(console: Console, found: Late) -> None:
    """What is late for one month: a line for each resource and project that changes, and what else is to be known."""
    idle = sum(not resource.effects for resource in found.resources)
    if found.complete and not (found.resources or found.relations or found.reasons):
        console.print(f"{found.run.period}: nothing is late")
        return
    head = f"{found.run.period}: {len(found.resources)} resource(s) with late events, {idle} of them unchanged"
    if not found.complete:
        head = f"{found.run.period}: so many resources have late events that only a correction tells what they change"
    console.print(head, soft_wrap=True)
    table = _table("Cloud", "Type", "Resource", "Project", ">Events", ">Minutes", ">Amount", "Currency")
    for resource in found.resources:
        for effect in resource.effects:
            key = resource.cloud, resource.resource_type, resource.resource_id, effect.project_id
            sums = _signed(effect.minutes), f"{effect.amount:+.2f}"
            _add(table, *key, str(len(resource.events)), *sums, found.currency)
    if table.row_count:
        _print(console, table)
        console.print(f"together {_signed(found.minutes)} minutes, {found.amount:+.2f} {found.currency}")
    for relation in found.relations:
        console.print(f"late relation {relation.after.type} {relation.after.id}: bills may change")
    for reason in found.reasons:
        console.print(f"a correction derives everything again: {reason}", soft_wrap=True)


def verified(console: Console, found: Verified) -> None:
    """What of a finalized month is not as it was finalized, or that all of it is."""
    for difference in found.differences:
        line = f"{difference.kind} {difference.subject}: {difference.detail}"
        console.print(line, soft_wrap=True)
    for remark in found.remarks:
        console.print(remark, soft_wrap=True)
    if not found.differences:
        corrections = len(found.runs) - 1
        month = f"{found.runs[0].period} and its {corrections} correction(s)"
        console.print(f"{month} are as they were finalized")
        console.print("a replay from the kept inputs has the same usage and the same costs")


def delivered(console: Console, rows: Sequence[Outcome]) -> None:
    """What a delivery has come to, by target; and why one was given up."""
    table = _table("Target", ">New", ">Delivered", ">Failed", "Given up")
    for row in rows:
        _add(table, row.target, str(row.new), str(row.delivered), str(row.failed), row.stopped or "")
    _print(console, table)


def deliveries(console: Console, progress: Sequence[Progress], rows: Sequence[DeliveryRow]) -> None:
    """How far each target is with each month, and some documents with what has become of them."""
    table = _table("Target", "Period", ">Delivered", ">Pending", ">Failed")
    for each in progress:
        _add(table, each.target, each.period, str(each.delivered), str(each.pending), str(each.failed))
    _print(console, table)
    if not rows:
        return
    console.print()
    table = _table("Target", "Number", "Type", "Cloud", "Project", "Status", ">Attempts", "Next attempt", "Said")
    for row in rows:
        what = row.document.number, row.document_type, row.cloud, row.project_id, row.status, str(row.attempts)
        waits = _instant(row.next_attempt_at) if row.is_under_way else ""
        asked = f"sent again for {row.asked_by}: {row.reason}" if row.asked_by else ""
        ended = f"withdrawn by {row.withdrawn_by}: {row.withdrawal_reason}" if row.withdrawn_by else ""
        _add(table, row.target, *what, waits, "; ".join(filter(None, (row.receipt or row.last_error, asked, ended))))
    _print(console, table)


def kickbacks(console: Console, rows: Sequence[PartnerKickback]) -> None:
    """Partners with what they are owed, and for how many bills."""
    table = _table("Partner", "Name", ">Bills", ">Kickback", "Currency")
    for row in rows:
        bills_behind = len({(line.cloud, line.project_id) for line in row.lines})
        _add(table, f"{row.cloud}/{row.project_id}", row.name, str(bills_behind), f"{row.amount:.2f}", row.currency)
    _print(console, table)


def prepared(console: Console, made: Prepared) -> None:
    """What a migration changed."""
    changed = [
        *(f"migrated reporting: {name}" for name in made.reporting_migrations),
        *(f"migrated metering: {name}" for name in made.metering_migrations),
        *(f"loaded resource type: {name}" for name in made.resource_types),
        *(f"loaded price version: {name}" for name in made.price_versions),
    ]
    for line in changed or ["everything is up to date"]:
        console.print(line)


def brought_together(console: Console, done: BroughtTogether) -> None:
    """What each database has again of the events of the other."""
    rejected = f", rejected {done.rejected}: tally rejected list" if done.rejected else ""
    console.print(f"events that the reporting database has again: {done.accepted}{rejected}")
    console.print(f"batches put back for the metering database: {done.batches}; the next close brings what it lacks")


def projects(console: Console, rows: Sequence[Project], relations: Sequence[Relation]) -> None:
    """Projects, and below them the relations by the addresses of their ends."""
    table = _table("Project", "Platform", "Name", "Id")
    for project in rows:
        _add(table, project.address, project.platform, project.name or "", str(project.id))
    _print(console, table)
    if not relations:
        return
    console.print()
    addresses = {project.id: project.address for project in rows}
    table = _table("Source", "Relation", "Target", "From", "To", "Id")
    for relation in relations:
        validity = _instant(relation.valid_from), _instant(relation.valid_to)
        ends = addresses[relation.source], relation.type, addresses[relation.target]
        _add(table, *ends, *validity, str(relation.id))
    _print(console, table)


def clouds(console: Console, rows: Sequence[CloudRow]) -> None:
    """Clouds with their platforms."""
    table = _table("Cloud", "Platform", "Registered")
    for row in rows:
        _add(table, row.cloud, row.platform, _instant(row.created_at))
    _print(console, table)


def credentials(console: Console, rows: Sequence[Credential], now: datetime) -> None:
    """Credentials with what each is for, and whether it is accepted."""
    table = _table("Name", "Role", "Cloud", "Proof", "Status", "Expires", "Created by", "Id", "Replaces")
    for row in rows:
        cloud = row.scope.cloud if row.scope else ""
        proof, expires = row.subject or "token", _instant(row.expires_at)
        made = row.created_by, row.id, row.replaces or ""
        _add(table, row.name, row.role, cloud, proof, row.status(now), expires, *made)
    _print(console, table)


def rejected(console: Console, rows: Sequence[LetterRow]) -> None:
    """Rejected events, and why."""
    table = _table(">Id", "Received", "Taken", "Cloud", "Event", "Format", ">Bytes", "Reason", "Detail")
    for row in rows:
        instants = _instant(row.received_at), _instant(row.replayed_at)
        _add(
            table,
            str(row.id),
            *instants,
            row.cloud,
            row.event_id,
            row.format,
            str(row.size_bytes),
            row.reason,
            row.detail,
        )
    _print(console, table)


def replay(console: Console, made: Replay) -> None:
    """What became of events that were tried again, with the reasons of rejections."""
    results = made.results
    counts = f"accepted {results['accepted']}, deduplicated {results['deduplicated']}, rejected {results['rejected']}"
    console.print(counts + (f", ignored {results['ignored']}" if results["ignored"] else ""))
    for reason, count in made.reasons.most_common():
        console.print(f"  {reason}: {count}")
