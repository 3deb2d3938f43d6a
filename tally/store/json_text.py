"""JSON between Python and PostgreSQL: decimals stay decimals both ways, since psycopg's own reading makes floats."""

import json
from decimal import Decimal
from typing import Any

import simplejson

_WRITER = simplejson.JSONEncoder(use_decimal=True, ensure_ascii=False, separators=(",", ":"))
_FAST_WRITER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_READER = json.JSONDecoder(parse_float=Decimal)


def write_json(value: Any) -> str:
    """Write a value of dicts, lists, texts, ints and decimals as the text of a jsonb."""
    try:
        return _FAST_WRITER.encode(value)
    except TypeError:   # it knows no decimals
        return _WRITER.encode(value)


def read_json(text: str | bytes) -> Any:
    """Read what ``column::text`` gave."""
    return _READER.decode(text if isinstance(text, str) else text.decode())
