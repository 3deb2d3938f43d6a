"""FOCUS rows as files: CSV and Parquet, batch by batch, and the description of their columns. No row is kept.

What a row says belongs to pricing.documents.focus; which rows there are, to focus_export.py.
"""

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from pricing.documents.focus import FocusRow
from pricing.documents.focus_columns import COLUMNS, FOCUS_VERSION, NAMES, Column, Kind
from tally import __version__
from tally.domain.errors import Refused
from tally.domain.instants import format_instant

_BATCH = 20_000
_DECIMAL_DIGITS = 38  # of a decimal128
_START, _END = NAMES.index("ChargePeriodStart"), NAMES.index("ChargePeriodEnd")
_SECOND = timedelta(seconds=1)
_DATA_TYPES = {Kind.TEXT: "STRING", Kind.JSON: "JSON", Kind.INSTANT: "DATETIME"}


def write_csv(rows: Iterable[FocusRow], path: Path) -> None:
    """Write rows as CSV in UTF-8; null is an empty field, instants are whole seconds as the specification asks."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(NAMES)
        writer.writerows(map(_csv_row, rows))


def write_parquet(rows: Iterable[FocusRow], path: Path) -> None:
    """Write rows as Parquet with decimal128 and timestamp[us, UTC].

    Raises:
        Refused: if a number has more digits than a decimal128 holds.
    """
    schema = pa.schema(
        [pa.field(column.name, _arrow_type(column.kind), nullable=column.nullable) for column in COLUMNS],
        metadata={"FocusVersion": FOCUS_VERSION, "DataGenerator": f"Tally {__version__}"},
    )
    with parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        remaining = iter(rows)
        while batch := list(islice(remaining, _BATCH)):
            writer.write_batch(_record_batch(batch, schema))


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


WRITERS: Mapping[str, Callable[[Iterable[FocusRow], Path], None]] = {"csv": write_csv, "parquet": write_parquet}


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


def _arrow_type(kind: Kind) -> pa.DataType:
    if kind is Kind.INSTANT:
        return pa.timestamp("us", tz="UTC")
    return pa.string() if kind.decimals is None else pa.decimal128(_DECIMAL_DIGITS, kind.decimals)


def _record_batch(rows: list[FocusRow], schema: pa.Schema) -> pa.RecordBatch:
    try:
        arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    except pa.ArrowInvalid as error:
        raise Refused("a charge does not fit into the columns of FOCUS", [str(error)]) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _definition(column: Column) -> dict[str, Any]:
    if column.kind.decimals is not None:
        scale = {"NumericPrecision": _DECIMAL_DIGITS, "NumberScale": column.kind.decimals}
        return {"ColumnName": column.name, "DataType": "DECIMAL"} | scale
    encoding = {"StringEncoding": "UTF-8"} if column.kind is Kind.TEXT else {}
    return {"ColumnName": column.name, "DataType": _DATA_TYPES[column.kind]} | encoding
