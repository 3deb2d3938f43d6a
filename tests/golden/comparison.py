"""Comparing what Tally produced with what the requirement prints, field by field and in exact decimals.

Every field that is expected must be there with the expected value; more may be there (the requirement omits `count`).
Descriptions are free text. What is compared, and where it comes from, belongs to closed_month.py.
"""

from decimal import Decimal
from typing import Any

FREE_TEXT = frozenset({"description"})


def differences(expected: Any, actual: Any, where: str = "document") -> list[str]:
    """Return one line per field of ``expected`` that ``actual`` lacks or has otherwise; numbers compare by value.

    A binary float is a difference in itself, whatever its value.
    """
    if isinstance(expected, dict) and isinstance(actual, dict):
        return [
            line
            for key in expected
            if key not in FREE_TEXT
            for line in (
                differences(expected[key], actual[key], f"{where}.{key}")
                if key in actual
                else [f"{where}.{key} is missing; {expected[key]} is expected"]
            )
        ]
    if isinstance(expected, list) and isinstance(actual, list):
        if len(expected) != len(actual):
            return [f"{where} has {len(actual)} elements; {len(expected)} are expected"]
        pairs = enumerate(zip(expected, actual, strict=True))
        return [line for at, pair in pairs for line in differences(*pair, f"{where}[{at}]")]
    if _equal(expected, actual):
        return []
    return [f"{where} is {actual!r}; {expected!r} is expected"]


def _equal(expected: Any, actual: Any) -> bool:
    if _is_number(expected):
        return _is_number(actual) and Decimal(expected) == Decimal(actual)
    return type(expected) is type(actual) and bool(expected == actual)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | Decimal) and not isinstance(value, bool)
