"""Reading samples from VictoriaMetrics, as they were stored: its export, line by line, in bounded memory.

What samples mean does not belong here. A value is the decimal text that the server gives back for it, which is the
shortest one that names the binary float it holds; nothing is computed with floats, here or there.
"""

import json
from collections.abc import Iterator
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import requests

from tally.domain.errors import InvalidInput, TallyError, Unavailable
from tally.domain.samples import Line, from_milliseconds, to_milliseconds

_TIMEOUT = (10, 300)  # seconds, to connect and between two blocks of an answer
_ROWS_PER_LINE = 5000
_BLOCK = 64 * 1024
_SHOWN = 300
_TEMPORARY = frozenset({408, 425, 429})


class VictoriaMetrics:
    """A server, by the URL under which it answers /api/v1/export: of a single node, or of a cluster's vmselect."""

    def __init__(self, url: str, timeout: tuple[float, float] = _TIMEOUT) -> None:
        parts = urlsplit(url)
        self._url = url.rstrip("/")
        self._name = f"VictoriaMetrics at {parts.hostname}:{parts.port or parts.scheme}"
        self._timeout = timeout

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """All samples of the selected series from ``start`` until before ``end``.

        Raises:
            Unavailable: if the server does not answer, or breaks off.
            InvalidInput: if it refuses the selector, or what it selects are no counters.
        """
        first, last = to_milliseconds(start), to_milliseconds(end) - 1
        parameters: dict[str, str | int] = {
            "match[]": selector,
            "start": _instant(first),
            "end": _instant(last),
            "max_rows_per_line": _ROWS_PER_LINE,
        }
        try:
            with requests.get(
                f"{self._url}/api/v1/export", params=parameters, timeout=self._timeout, stream=True
            ) as response:
                if response.status_code != requests.codes.ok:
                    raise self._refusal(response)
                for text in response.iter_lines(_BLOCK):
                    if text:
                        yield self._line(text, first, last)
        except requests.RequestException as error:
            raise Unavailable(f"{self._name} does not answer: {_reason(error)}") from None

    def _refusal(self, response: requests.Response) -> TallyError:
        said = " ".join(response.text.split())[:_SHOWN]
        refused = 400 <= response.status_code < 500 and response.status_code not in _TEMPORARY  # noqa: PLR2004
        return (InvalidInput if refused else Unavailable)(f"{self._name} answers {response.status_code}: {said}")

    def _line(self, text: bytes, first: int, last: int) -> Line:
        try:
            line = json.loads(text, parse_float=Decimal, parse_constant=_no_number)
            labels, at_ms, values = line["metric"], line["timestamps"], line["values"]
            _check_shape(labels, at_ms, values)
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            # An error that it notices after the first line ends up among the lines; so does an infinite value.
            said = text[:_SHOWN].decode("utf-8", "replace")
            raise Unavailable(f"{self._name} sends a line that is no series of finite samples: {said}") from None
        # A null is what Prometheus writes where a series ends.
        told = [(at, value) for at, value in zip(at_ms, values, strict=True) if value is not None]
        for at, value in told:
            if value < 0:
                raise InvalidInput(f"{labels} is no counter: it is {value} at {_instant(at)}")
            if not first <= at <= last:
                raise Unavailable(f"{self._name} sends a sample of {_instant(at)}, which was not asked for")
        return Line(labels, [at for at, _ in told], [value for _, value in told])


def _check_shape(labels: Any, at_ms: Any, values: Any) -> None:
    for name, value in labels.items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError
    if len(at_ms) != len(values) or any(type(at) is not int for at in at_ms):
        raise TypeError
    if any(value is not None and type(value) not in (int, Decimal) for value in values):
        raise TypeError


def _no_number(constant: str) -> Any:
    raise ValueError(constant)


def _instant(at_ms: int) -> str:
    return from_milliseconds(at_ms).strftime("%Y-%m-%dT%H:%M:%S") + f".{at_ms % 1000:03d}Z"


def _reason(error: requests.RequestException) -> str:
    """What went wrong, without the URL, which may hold a password."""
    inner: BaseException = error
    while inner.__cause__ or inner.__context__:
        inner = inner.__cause__ or inner.__context__ or inner
    return f"{type(error).__name__} ({' '.join(str(inner).split())[:100]})"
