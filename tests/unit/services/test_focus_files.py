"""How a FOCUS row is written: instants, numbers and nulls of a CSV, and what Parquet refuses."""

import csv
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing.documents.focus_columns import COLUMNS, NAMES, Kind
from tally.domain.errors import Refused
from tally.services.focus_files import write_csv
from tally.services.focus_parquet import write_parquet

SAMPLES: dict[Kind, Any] = {Kind.TEXT: "text", Kind.JSON: "{}", Kind.INSTANT: datetime(2026, 3, 1, tzinfo=UTC)}


def row(**changes: Any) -> tuple[Any, ...]:
    """A row of samples."""
    return tuple(changes.get(column.name, SAMPLES.get(column.kind, Decimal(1))) for column in COLUMNS)


def written(tmp_path: Path, **changes: Any) -> dict[str, str]:
    """A row as it stands in a CSV."""
    write_csv([row(**changes)], tmp_path / "focus.csv")
    with (tmp_path / "focus.csv").open(encoding="utf-8", newline="") as stream:
        (line,) = csv.DictReader(stream)
    assert tuple(line) == NAMES
    return line


@pytest.mark.parametrize(
    ("start", "end", "shown"),
    [
        (("00:00:00", 0), ("01:00:00", 0), ("00:00:00", "01:00:00")),
        (("00:00:00", 5), ("01:00:00", 5), ("00:00:00", "01:00:00")),
        (("00:00:00", 1), ("00:00:00", 2), ("00:00:00", "00:00:01")),
    ],
)
def test_both_ends_are_cut_to_the_second(
    tmp_path: Path, start: tuple[str, int], end: tuple[str, int], shown: tuple[str, str]
) -> None:
    """So neighbours meet; what is shorter than a second lasts one."""
    first, last = (
        datetime.fromisoformat(f"2026-03-01T{time}+00:00").replace(microsecond=micro) for time, micro in (start, end)
    )
    line = written(tmp_path, ChargePeriodStart=first, ChargePeriodEnd=last)
    found = line["ChargePeriodStart"], line["ChargePeriodEnd"]
    assert found == tuple(f"2026-03-01T{time}Z" for time in shown)


def test_numbers_are_plain(tmp_path: Path) -> None:
    """No exponents; amounts have their cents, and other decimals one digit at least, so that no reader guesses."""
    numbers = {"BilledCost": "-0.10", "ListUnitPrice": "1E-10", "PricingQuantity": "2976.0000000000"}
    line = written(tmp_path, **{name: Decimal(text) for name, text in numbers.items()})
    assert (line["BilledCost"], line["ListUnitPrice"], line["PricingQuantity"]) == ("-0.10", "0.0000000001", "2976.0")


def test_null_is_an_empty_field(tmp_path: Path) -> None:
    """Not a word for nothing."""
    assert written(tmp_path, ChargeClass=None)["ChargeClass"] == ""


def test_a_number_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    """Rather than rounded."""
    with pytest.raises(Refused, match="does not fit"):
        write_parquet([row(ListCost=Decimal(10**20))], tmp_path / "focus.parquet")
