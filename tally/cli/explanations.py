"""What the command line prints of an explanation: one line a fact, from the cent to the events."""

from collections.abc import Iterator

from rich.console import Console

from tally.domain.instants import format_instant
from tally.domain.timeline import Step
from tally.services.explain import Explanation


def explanation(console: Console, found: Explanation) -> None:
    """Print an explanation."""
    for line in lines(found):
        console.print(line, soft_wrap=True)


def lines(found: Explanation) -> Iterator[str]:
    """Yield its lines."""
    record, usage, run = found.record, found.usage, found.run
    yield f"{record.amount:f} {record.currency}  {record.dimension} of {record.resource_type} {record.resource_id}"
    yield f"project    {record.cloud}/{record.project_id}"
    if found.working is None:
        yield "formula    its price is no longer in the price version: see tally verify"
    else:
        for no, line in enumerate(found.working.lines):
            yield f"{'' if no else 'formula':<11}{line}"
        if not found.holds:
            yield f"           which is not what the ledger holds: {record.amount:f}; see tally verify"
    if record.from_ts and record.to_ts:
        part = f"{format_instant(record.from_ts)} to {format_instant(record.to_ts)}"
        yield f"pays for   {part}: prices change within the usage"
    yield f"prices     version {record.pricing_version}, content hash {record.pricing_hash}"
    span = f"{format_instant(usage.from_ts)} to {format_instant(usage.to_ts)}"
    yield f"usage      {span}, {usage.state}, record {usage.id}"
    yield f"begun by   {_event(found.caused_by)}"
    yield f"ended by   {_event(found.ended_by)}"
    for increment in found.increments:
        source = _event(increment.event) if increment.event else "a sample"
        yield f"counted    {increment.quantity:f} at {format_instant(increment.at)}: {source}"
    if found.increment_count > len(found.increments):
        yield f"           and {found.increment_count - len(found.increments)} more"
    yield f"run        {run.id} of {run.period}, {run.kind}, {run.status}"
    yield f"read       events up to load {run.load_id}, registry version {run.registry_version}"
    if found.reverses:
        yield f"reverses   record {found.reverses.record_id} of run {found.reverses.run_id}"
    if found.reversed_by:
        other = found.reversed_by
        yield f"reversed   by record {other.record_id} of run {other.run_id}: it no longer counts"


def _event(step: Step | None) -> str:
    if step is None:
        return "nothing that is known"
    return f"{step.event_type} {step.event_id} at {format_instant(step.timestamp)}"
