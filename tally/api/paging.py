"""Keyset pagination: a page begins after the key of the last row of the page before, which its cursor holds.

So a page costs the same wherever it is, and rows that come or go in between neither repeat nor hide others.
"""

import binascii
import hashlib
import json
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Annotated, Any, TypeVar
from uuid import UUID

from fastapi import Depends, Request

from tally.api.answers import JsonAnswer
from tally.api.parameters import Cursor, Limit
from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant, parse_instant

Row = TypeVar("Row")
Key = tuple[Any, ...]

_READERS: dict[type, Callable[[Any], Any]] = {datetime: parse_instant, UUID: UUID}
_STORABLE = 2**63


@dataclass(frozen=True, slots=True)
class Page:
    """What a list request asks for. ``query`` is a fingerprint of all but limit and cursor."""

    limit: int
    cursor: str | None
    query: str

    @property
    def fetch(self) -> int:
        """How many rows to ask for: one more than are shown tells whether another page follows."""
        return self.limit + 1

    def after(self, *types: type) -> Key | None:
        """Return the key that the page begins after, of values of these types; None for the first page.

        Raises:
            InvalidInput: if the cursor is not from a page of the same query.
        """
        if self.cursor is None:
            return None
        try:
            query, *key = json.loads(urlsafe_b64decode(self.cursor.encode("ascii")))
            values = tuple(_read(kind, value) for kind, value in zip(types, key, strict=True))
        except (ValueError, TypeError, RecursionError, binascii.Error, InvalidInput):
            raise _strange_cursor() from None
        if query != self.query:
            raise _strange_cursor()
        return values

    def shortened(self, whole: int) -> "Page":
        """Return a page of the first ``whole`` rows, at least one: the others are too long for it."""
        return replace(self, limit=min(self.limit, max(whole, 1)))

    def answer(self, rows: Sequence[Row], key: Callable[[Row], Key], view: Callable[[Row], Any]) -> JsonAnswer:
        """Write a page of the rows that ``fetch`` asked for; ``key`` is unique and what they are ordered by."""
        shown = rows[: self.limit]
        more = len(rows) > self.limit
        cursor = _cursor(self.query, key(shown[-1])) if more else None
        return JsonAnswer({"items": [view(row) for row in shown], "next_cursor": cursor})


def page_of(request: Request, limit: Limit = 100, cursor: Cursor = None) -> Page:
    """Read what a list request asks for."""
    asked = sorted((name, text) for name, text in request.query_params.multi_items() if name not in {"limit", "cursor"})
    query = hashlib.sha256(json.dumps([request.url.path, asked]).encode()).hexdigest()[:16]
    return Page(limit, cursor, query)


Paged = Annotated[Page, Depends(page_of)]


def _cursor(query: str, key: Key) -> str:
    values = [format_instant(v) if isinstance(v, datetime) else str(v) if isinstance(v, UUID) else v for v in key]
    return urlsafe_b64encode(json.dumps([query, *values]).encode()).decode()


def _read(kind: type, value: Any) -> Any:
    if type(value) is not (str if kind in _READERS else kind):
        raise TypeError(kind)
    if kind in _READERS:
        return _READERS[kind](value)
    if isinstance(value, int) and not -_STORABLE <= value < _STORABLE:
        raise ValueError("too large")
    if isinstance(value, str) and "\x00" in value.encode().decode():  # encode refuses half a surrogate pair
        raise ValueError("NUL")
    return value


def _strange_cursor() -> InvalidInput:
    return InvalidInput("cursor is not the next_cursor of a page of this query; begin again without it")
