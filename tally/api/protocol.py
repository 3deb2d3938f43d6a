"""HTTP on one connection, bounded: what a client may send before anybody knows who it is, and how slowly.

uvicorn's own protocol takes headers without end, waits for ever for the rest of a request, and keeps an answer that
nobody reads: a handful of clients fill the memory or take all connections. Requests that are none are answered by a
problem document, as all others.
"""

import asyncio
from collections import deque
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle

from tally.api.problems import Problem

HEAD_BYTES = 64 * 1024
REQUEST_SECONDS = 60
STALLED_SECONDS = 30
_LEAST_BYTES = 64 * 1024  # that a client takes of an answer within STALLED_SECONDS


class _TooLongError(Exception):
    """The address and the headers of a request are too long; the parser ends with it."""


class BoundedProtocol(HttpToolsProtocol):
    """A connection whose requests have a length and an end, and whose answers are read."""

    request_seconds: float = REQUEST_SECONDS  # from the first byte of a request to its last
    stalled_seconds: float = STALLED_SECONDS

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._begun = False  # whether anything was asked on this connection
        self._in_head = False
        self._head = 0  # bytes of the address and the headers so far
        self._too_long = False
        self._asked: deque[RequestResponseCycle] = deque()  # what is not answered yet
        self._request_timer: asyncio.TimerHandle | None = None
        self._answer_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the first request."""
        super().connection_made(transport)
        self._begin_request()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait for nothing any more; uvicorn tells only the last of several requests that its client has gone."""
        _cancel(self._request_timer)
        _cancel(self._answer_timer)
        for cycle in self._asked:
            cycle.disconnected = True
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse; a header that has not ended yet is not told by the parser, and counted here."""
        was_in_head = self._in_head
        super().data_received(data)
        if was_in_head and self._in_head:
            self._head += len(data)
            if self._head > HEAD_BYTES and not self.transport.is_closing():
                self._refuse(_head_too_long())

    def on_message_begin(self) -> None:
        """Begin a request."""
        super().on_message_begin()
        self._begun, self._in_head, self._head = True, True, 0
        self._begin_request()

    def on_url(self, url: bytes) -> None:
        """Count the address."""
        super().on_url(url)
        self._count(len(url))

    def on_header(self, name: bytes, value: bytes) -> None:
        """Count a header."""
        super().on_header(name, value)
        self._count(len(name) + len(value))

    def on_headers_complete(self) -> None:
        """Let the application begin."""
        self._in_head = False
        super().on_headers_complete()
        while self._asked and self._asked[0].response_complete:
            self._asked.popleft()
        self._asked.append(self.cycle)

    def on_message_complete(self) -> None:
        """End a request."""
        _cancel(self._request_timer)
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer what the parser does not take for a request."""
        self._refuse(_head_too_long() if self._too_long else Problem(400, "invalid-request", f"this is no HTTP: {msg}"))

    def timeout_keep_alive_handler(self) -> None:
        """End an idle connection, also if its last answer is never read."""
        super().timeout_keep_alive_handler()
        self._watch_answer()

    def pause_writing(self) -> None:
        """Watch whether a client reads the answer that waits for it."""
        super().pause_writing()
        self._watch_answer()

    def resume_writing(self) -> None:
        """The client has read most of it; the rest of a connection that ends is still to be read."""
        if not self.transport.is_closing():
            _cancel(self._answer_timer)
        super().resume_writing()

    def _count(self, length: int) -> None:
        self._head += length
        if self._head > HEAD_BYTES:
            self._too_long = True
            raise _TooLongError

    def _begin_request(self) -> None:
        _cancel(self._request_timer)
        self._request_timer = self.loop.call_later(self.request_seconds, self._too_slow)

    def _too_slow(self) -> None:
        if self.transport.is_closing():
            return
        if self._can_be_told():
            self._refuse(_request_too_slow(self.request_seconds))
        else:
            self.transport.abort()

    def _can_be_told(self) -> bool:
        """Whether an answer would be one to this request, and not stand in the middle of another one."""
        last: RequestResponseCycle | None = self.cycle
        if not self._begun or self.pipeline:
            return False
        if self._in_head:
            return last is None or last.response_complete
        return last is not None and not last.response_started

    def _refuse(self, problem: Problem) -> None:
        """Answer without the application, and end the connection: where the next request would begin is not known."""
        answer = problem.answer()
        headers = [*answer.raw_headers, (b"connection", b"close")]
        lines = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[problem.status] + lines + b"\r\n" + bytes(answer.body))
        self.transport.close()

    def _watch_answer(self, left: int | None = None) -> None:
        """End the connection if less than ``_LEAST_BYTES`` of what was ``left`` to send have been taken since."""
        _cancel(self._answer_timer)
        now_left = self.transport.get_write_buffer_size()
        if left is not None and now_left > left - _LEAST_BYTES:
            self.transport.abort()
        else:
            self._answer_timer = self.loop.call_later(self.stalled_seconds, self._watch_answer, now_left)


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _head_too_long() -> Problem:
    detail = f"the address and the headers of the request are longer than {HEAD_BYTES} bytes; nothing of it was done"
    return Problem(431, "headers-too-long", detail)


def _request_too_slow(seconds: float) -> Problem:
    detail = f"the request had not come whole after {seconds:g} s; send it again. Nothing of it was kept"
    return Problem(408, "too-slow", detail)
