"""The export of VictoriaMetrics is read whole, or refused: a server that says something else never passes for zero."""

import base64
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

import pytest

from tally.domain.errors import InvalidInput, TallyError, Unavailable
from tally.domain.samples import Line
from tally.store.victoria_metrics import VictoriaMetrics

START, END = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 3, 2, tzinfo=UTC)
FIRST = 1_772_323_200_000
GOOD = b'{"metric":{"id":"a"},"values":[1,0.1,1e22],"timestamps":[%d,%d,%d]}\n' % (FIRST, FIRST + 1, FIRST + 2)

Answer = Callable[[BaseHTTPRequestHandler], None]


@contextmanager
def answering(answer: Answer) -> Iterator[tuple[VictoriaMetrics, list[BaseHTTPRequestHandler]]]:
    """A client of a server that gives one answer, and the requests that it got."""
    asked: list[BaseHTTPRequestHandler] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            asked.append(self)
            answer(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield VictoriaMetrics(f"http://user:pa%40ss@127.0.0.1:{server.server_port}/select/0/prometheus/"), asked
        finally:
            server.shutdown()
            thread.join()


def says(body: bytes, status: int = 200, length: int | None = None) -> Answer:
    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(body) if length is None else length))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def exported(body: bytes, status: int = 200, length: int | None = None) -> list[Line]:
    with answering(says(body, status, length)) as (server, _):
        return list(server.export("x", START, END))


def error_of(body: bytes, status: int = 200, length: int | None = None) -> TallyError:
    with pytest.raises(TallyError) as caught:
        exported(body, status, length)
    assert "pa%40ss" not in str(caught.value)
    return caught.value


def test_values_are_the_decimals_that_the_server_writes() -> None:
    """Not their nearest binary floats; a null, which ends a series, is no sample."""
    assert exported(GOOD) == [Line({"id": "a"}, [FIRST, FIRST + 1, FIRST + 2], [1, Decimal("0.1"), Decimal("1e22")])]
    with_null = b'{"metric":{},"values":[1,null],"timestamps":[%d,%d]}\n\n' % (FIRST, FIRST + 1)
    assert exported(with_null) == [Line({}, [FIRST], [1])]
    assert exported(b"") == []


def test_the_span_is_asked_for_half_open_to_the_millisecond() -> None:
    """The server takes both ends in."""
    with answering(says(b"")) as (server, asked):
        list(server.export('x{a="b"}', START, END))
    path = urlsplit(asked[0].path)
    assert path.path == "/select/0/prometheus/api/v1/export"
    assert parse_qs(path.query) == {
        "match[]": ['x{a="b"}'],
        "start": ["2026-03-01T00:00:00.000Z"],
        "end": ["2026-03-01T23:59:59.999Z"],
        "max_rows_per_line": ["5000"],
    }
    assert asked[0].headers["Authorization"] == "Basic " + base64.b64encode(b"user:pa@ss").decode()


@pytest.mark.parametrize("status", [400, 401, 404, 422])
def test_what_the_server_refuses_is_not_tried_again(status: int) -> None:
    """Its words are passed on."""
    error = error_of(b"cannot parse\nx{", status)
    assert isinstance(error, InvalidInput)
    assert str(error).endswith(f"answers {status}: cannot parse x{{")


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503])
def test_a_server_in_trouble_may_be_tried_again(status: int) -> None:
    """It may recover."""
    assert isinstance(error_of(b"overloaded", status), Unavailable)


@pytest.mark.parametrize(
    "line",
    [
        b"error: cannot read block",
        b'{"metric":{},"values":[+Inf],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":[Infinity],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":["1"],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":[true],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":[1,2],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":[1],"timestamps":[1.5]}',
        b'{"metric":{"a":1},"values":[1],"timestamps":[%d]}' % FIRST,
        b'{"metric":[],"values":[1],"timestamps":[%d]}' % FIRST,
        b'{"values":[1],"timestamps":[%d]}' % FIRST,
        b'{"metric":{},"values":[1],"timestamps":[%d]}' % (FIRST - 1),
        b"[]",
        b"\xff\xfe",
        b'{"metric":{},"values":[1,2],"timest',
    ],
)
def test_a_line_that_is_no_series_fails_the_whole(line: bytes) -> None:
    """An error that the server notices late ends up among the lines."""
    assert isinstance(error_of(GOOD + line + b"\n"), Unavailable)


def test_an_answer_that_breaks_off_fails_the_whole() -> None:
    """Also at the end of a line, where everything that came is good."""
    assert isinstance(error_of(GOOD, length=len(GOOD) + 100), Unavailable)


def test_what_falls_below_zero_is_no_counter() -> None:
    """S37: no quantity could come of it."""
    error = error_of(b'{"metric":{"id":"a"},"values":[-5],"timestamps":[%d]}\n' % FIRST)
    assert isinstance(error, InvalidInput)
    assert "no counter: it is -5 at 2026-03-01T00:00:00.000Z" in str(error)


def test_a_server_that_is_not_there_is_named_without_its_password() -> None:
    """By host and port."""
    with pytest.raises(Unavailable, match=r"VictoriaMetrics at 127\.0\.0\.1:1 does not answer: Connection") as caught:
        list(VictoriaMetrics("http://user:secret@127.0.0.1:1").export("x", START, END))
    assert "secret" not in str(caught.value)
