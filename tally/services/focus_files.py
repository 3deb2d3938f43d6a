"""FOCUS rows as files: CSV, and the description of their columns. No row is kept. Parquet is focus_parquet.py's.

What a row says belongs to pricing.documents.focus; which rows there are, to focus_export.py.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from pricing.documents.focus import FocusRow
from pricing.documents.focus_columns import COLUMNS, FOCUS_VERSION, NAMES, Column, Kind
from tally import __version__
from tally.domain.instants import format_instant

DECIMAL_DIGITS = 38  # of a decimal128
_START, _END = NAMES.index("ChargePeriodStart"), NAMES.index("ChargePeriodEnd")
_SECOND = timedelta(seconds=1)
_DATA_TYPES = {Kind.TEXT: "STRING", Kind.JSON: "JSON", Kind.INSTANT: "DATETIME"}


def write_csv(rows: Iterable[FocusRow], path: Path) -> None:
    """Write rows as CSV in UTF-8; null is an empty field, instants are whole seconds as the specification asks."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(NAMES)
        writer.writerows(map(_csv_row, rows))


def write_metadata(path: Path, now: datetime) -> None:
    """Write what the specification calls metadata: the generator, the version, and each column with its type."""
    schema = {
        "SchemaId": f"tally-{__version__}-focus-{FOCUS_VERSION}",
        "FocusVersion": FOCUS_VERSION,
        "DataGeneratorVersion": __version__,
        "CreationDate": format_instant(now),
        "ColumnDefinition": [_definition(column) for column in COLUMNS],
    }
    text = json.dumps({"DataGenerator": {"DataGenerator": "Tally"}, "Schema": schema}, indent=2)
    path.write_text(text + "\n", encoding="utf-8")


def _write_parquet(rows: Iterable[FocusRow], path: Path) -> None:
    """Import what writes Parquet only now: it takes seconds, and 45 MB of each process of the API."""
    from tally.services.focus_parquet import write_parquet

    write_parquet(rows, path)


WRITERS: Mapping[str, Callable[[Iterable[FocusRow], Path], None]] = {"csv": write_csv, "parquet": _write_parquet}


def _csv_row(row: FocusRow) -> Iterator[str]:
    """Cut both ends to the second, so that neighbours still meet; what is shorter than a second lasts one."""
    start, end = (row[place].replace(microsecond=0) for place in (_START, _END))
    ends = {_START: start, _END: end if end > start else start + _SECOND}
    values = (ends.get(place, value) for place, value in enumerate(row))
    return (_csv_field(value, column.kind) for value, column in zip(values, COLUMNS, strict=True))


def _csv_field(value: Any, kind: Kind) -> str:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return format_instant(value)
    if isinstance(value, Decimal):
        return _decimal(value, kind)
    return str(value)


def _decimal(value: Decimal, kind: Kind) -> str:
    """Leave one decimal at least: who guesses the type of a column would take it for one of integers."""
    text = f"{value:f}"
    if kind is Kind.AMOUNT:
        return text
    whole, _, decimals = text.partition(".")
    return f"{whole}.{decimals.rstrip('0') or '0'}"


def _definition(column: Column) -> dict[str, Any]:
    if column.kind.decimals is not None:
        scale = {"NumericPrecision": DECIMAL_DIGITS, "NumberScale": column.kind.decimals}
        return {"ColumnName": column.name, "DataType": "DECIMAL"} | scale
    encoding = {"StringEncoding": "UTF-8"} if column.kind is Kind.TEXT else {}
    return {"ColumnName": column.name, "DataType": _DATA_TYPES[column.kind]} | encoding
