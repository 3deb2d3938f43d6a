"""What the command line prints of price versions."""

from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from rich.console import Console

from pricing.comparison import PriceChange, Value, entries
from pricing.lint import Lint
from pricing.model import PriceVersion, day_text
from tally.cli.grid import RowFormat, add, instant, show, show_rows, signed, table
from tally.store.metering.price_use import VersionUse

_MONTHS_NAMED = 3
_CHANGE = ("change", "key", "before", "after", "difference", "percent")
_VERSION = (
    "version", "valid_from", "valid_to", "currency", "runs", "months", "finalized_months", "loaded_at", "content_hash",
)  # fmt: skip


def lint(console: Console, path: Path, found: Lint) -> None:
    """What is wrong with a file: one line a fault, then one line a warning."""
    for fault in found.faults:
        console.print(f"{path}: {fault}", soft_wrap=True)
    for warning in found.warnings:
        console.print(f"{path}: warning: {warning}", soft_wrap=True)
    if not found.faults:
        console.print(f"{path}: in order", soft_wrap=True)


def versions(console: Console, rows: Sequence[VersionUse], form: RowFormat) -> None:
    """Versions with their use."""
    if form is not RowFormat.TABLE:
        show_rows(console, [dict(zip(_VERSION, _version_row(row), strict=True)) for row in rows], _VERSION, form)
        return
    made = table("Version", "From", "To", "Currency", ">Runs", "Months", "Finalized", "Loaded", "Hash")
    for row in rows:
        months = day_text(row.valid_from), day_text(row.valid_to) if row.valid_to else ""
        use = str(row.runs), _months(row.months), _months(row.finalized)
        add(made, row.version, *months, row.currency, *use, instant(row.loaded_at), row.content_hash)
    show(console, made)


def version(console: Console, shown: PriceVersion) -> None:
    """A version: every key, and what stands there."""
    console.print(f"version {shown.version}, content hash {shown.content_hash}")
    made = table("Key", ">Value")
    for key, value in entries(shown):
        add(made, key, _text(value))
    show(console, made)


def changes(console: Console, rows: Sequence[PriceChange], form: RowFormat) -> None:
    """What differs between two versions."""
    if form is not RowFormat.TABLE:
        values = [(row.kind, row.where, row.before, row.after, row.difference, row.percent) for row in rows]
        show_rows(console, [dict(zip(_CHANGE, value, strict=True)) for value in values], _CHANGE, form)
        return
    made = table("Change", "Key", ">Before", ">After", ">Difference", ">Percent")
    for row in rows:
        difference = "" if row.difference is None else signed(row.difference)
        percent = "" if row.percent is None else f"{row.percent:+.2f} %"
        add(made, row.kind, row.where, _text(row.before), _text(row.after), difference, percent)
    show(console, made)


def _version_row(row: VersionUse) -> tuple[object, ...]:
    begin, end = day_text(row.valid_from), day_text(row.valid_to) if row.valid_to else None
    return (
        row.version, begin, end, row.currency, row.runs, row.months, row.finalized, row.loaded_at, row.content_hash,
    )  # fmt: skip


def _months(months: Sequence[str]) -> str:
    """Name months, the last ones of many."""
    return ", ".join(months) if len(months) <= _MONTHS_NAMED else f"{len(months)}, the last {months[-1]}"


def _text(value: Value | None) -> str:
    if value is None:
        return ""
    return f"{value:f}" if isinstance(value, Decimal) else value
