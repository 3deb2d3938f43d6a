"""FOCUS rows as Parquet, batch by batch. No row is kept. What a row says belongs to pricing.documents.focus."""

from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pyarrow as pa
from pyarrow import parquet

from pricing.documents.focus import FocusRow
from pricing.documents.focus_columns import COLUMNS, FOCUS_VERSION, Kind
from tally import __version__
from tally.domain.errors import Refused
from tally.services.focus_files import DECIMAL_DIGITS

_BATCH = 20_000


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


def _arrow_type(kind: Kind) -> pa.DataType:
    if kind is Kind.INSTANT:
        return pa.timestamp("us", tz="UTC")
    return pa.string() if kind.decimals is None else pa.decimal128(DECIMAL_DIGITS, kind.decimals)


def _record_batch(rows: list[FocusRow], schema: pa.Schema) -> pa.RecordBatch:
    try:
        arrays = [pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), schema, strict=True)]
    except pa.ArrowInvalid as error:
        raise Refused("a charge does not fit into the columns of FOCUS", [str(error)]) from None
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
