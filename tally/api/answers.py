"""Answers: JSON with decimals as they are, instants as ISO 8601, documents of the ledger passed through unchanged."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from simplejson import RawJSON
from starlette.responses import Response

from tally.domain.instants import format_instant
from tally.store.json_text import write_json


class JsonAnswer(Response):
    """A JSON answer; decimals and integers of any size are written exactly."""

    media_type = "application/json"

    def __init__(
        self,
        content: Any,
        status_code: int = 200,
        headers: Mapping[str, str] | None = None,
        media_type: str | None = None,
    ) -> None:
        super().__init__(content, status_code, headers, media_type)

    def render(self, content: Any) -> bytes:
        """Write the body; a str is JSON already."""
        return (content if isinstance(content, str) else write_json(content)).encode()


def instant(moment: datetime | None) -> str | None:
    """Write an instant, or null."""
    return None if moment is None else format_instant(moment)


def stored(text: str) -> RawJSON:
    """Show a JSON text of the database as it is."""
    return RawJSON(text)
