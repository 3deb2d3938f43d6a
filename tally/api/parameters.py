"""Types of parameters, with the limits that the contract gives them."""

from datetime import datetime
from typing import Annotated
from uuid import UUID

from fastapi import Path, Query
from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema
from starlette.convertors import StringConvertor, register_url_convertor

from tally.domain.errors import InvalidInput
from tally.domain.event import MAX_TEXT_BYTES
from tally.domain.instants import parse_instant


def _name(text: str) -> str:
    if "\x00" in text or len(text.encode("utf-8", "surrogatepass")) > MAX_TEXT_BYTES:
        raise ValueError(f"is not a name of at most {MAX_TEXT_BYTES} bytes")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("holds half a surrogate pair")
    return text


def _instant(text: object) -> datetime:
    try:
        return parse_instant(str(text))
    except InvalidInput as error:
        raise ValueError(str(error)) from None


class _AnyText(StringConvertor):
    """A part of a path that may hold slashes and line breaks: ``{name:any}``; ``path`` would end at a line break."""

    regex = r"[\s\S]+"


register_url_convertor("any", _AnyText())

NAME = r"^[^\u0000]+$"
MONTH = r"^[0-9]{4}-(0[1-9]|1[0-2])$"

_Name = Annotated[str, Field(pattern=NAME), AfterValidator(_name)]
_Instant = Annotated[
    datetime,
    BeforeValidator(_instant),
    WithJsonSchema({"type": "string", "format": "date-time", "maxLength": 64}),
]

Name = Annotated[_Name, Query(min_length=1, max_length=512)]
NameFilter = Annotated[_Name | None, Query(min_length=1, max_length=512)]
NameInPath = Annotated[_Name, Path(min_length=1, max_length=512)]
IdInPath = Annotated[UUID, Path()]
MonthInPath = Annotated[str, Path(pattern=MONTH)]
RowInPath = Annotated[int, Path(ge=1, le=2**63 - 1)]
InstantFilter = Annotated[_Instant | None, Query()]
From = Annotated[_Instant | None, Query(alias="from")]
To = Annotated[_Instant | None, Query(alias="to")]
Period = Annotated[str, Query(pattern=MONTH)]
PeriodFilter = Annotated[str | None, Query(pattern=MONTH)]
Limit = Annotated[int, Query(ge=1, le=1000)]
Cursor = Annotated[str | None, Query(min_length=1, max_length=4096)]
