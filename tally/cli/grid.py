"""How rows are printed: as a table for people, as JSON or as CSV for programs. What they hold is others' business."""

import csv
from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from io import StringIO
from typing import Any

import simplejson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pricing.documents.spreadsheet import plain_text
from tally.cli.terminal import visible
from tally.domain.instants import format_instant

_WIDEST = 10_000

Row = Mapping[str, Any]


class RowFormat(StrEnum):
    """How rows are printed."""

    TABLE = "table"
    JSON = "json"
    CSV = "csv"


def table(*headers: str) -> Table:
    """A plain table; a header that begins with > is of numbers."""
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for header in headers:
        made.add_column(header.removeprefix(">"), justify="right" if header[0] == ">" else "left", no_wrap=True)
    return made


def add(made: Table, *cells: str) -> None:
    """Add a row to a table."""
    made.add_row(*(Text(visible(cell)) for cell in cells))  # as text: names may hold what looks like markup


def show(console: Console, made: Table) -> None:
    """Print a table, or that there is nothing."""
    if made.row_count:
        # As wide as it is, also on a narrow terminal: a folded id could not be copied, nor a folded line be searched.
        made.width = console.measure(made, options=console.options.update(width=_WIDEST)).maximum
        console.print(made, soft_wrap=True)
    else:
        console.print("none")


def json_text(value: Any) -> str:
    """Write JSON with exact decimals, and instants as everywhere."""
    return simplejson.dumps(value, use_decimal=True, ensure_ascii=False, indent=2, default=format_instant)


def csv_text(rows: Sequence[Row], columns: Sequence[str]) -> str:
    """Write CSV with a line of headers (RFC 4180, but for its line ends); no text of it is a formula."""
    written = StringIO()
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows([_cell(row[column]) for column in columns] for row in rows)
    return written.getvalue().removesuffix("\n")


def show_rows(console: Console, rows: Sequence[Row], columns: Sequence[str], form: RowFormat) -> None:
    """Print rows for programs."""
    console.out(json_text(list(rows)) if form is RowFormat.JSON else csv_text(rows, columns), highlight=False)


def signed(number: Decimal) -> str:
    """A number with its sign, without trailing zeros."""
    text = f"{number:+f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def instant(at: datetime | None) -> str:
    """An instant, or nothing."""
    return "" if at is None else format_instant(at)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, list):
        return " ".join(map(_cell, value))
    return f"{value:f}" if isinstance(value, Decimal) else plain_text(str(value))
