"""How much one process takes on at once. What is beyond is refused at once, and its sender tries again.

A request that waits holds memory and a connection of its sender, and gets no faster by it. The limits:

- requests in flight: four for each connection to the database, so that one waits for its turn behind three at most;
- bytes of bodies in flight: four bodies of the largest size. Decoded, a body takes several times its length;
- one request that reads a whole month: it takes a processor of the database to itself.

Every request in flight can have a thread: one that holds a connection never waits for a thread that waits for a
connection. Health and metrics are not counted: they are asked for most when everything else is busy.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from anyio import CapacityLimiter
from starlette.types import ASGIApp, Receive, Scope, Send

from tally.api.problems import Problem
from tally.settings import Settings

REQUESTS_PER_CONNECTION = 4
LARGEST_BODIES = 4
UNCOUNTED = frozenset({"/healthz", "/readyz", "/metrics"})
_RETRY_AFTER = "1"  # seconds


class Load:
    """What is in flight. Used by the event loop alone: no lock is needed."""

    def __init__(self, requests: int, body_bytes: int) -> None:
        self.most_requests = requests
        self.one_thread = CapacityLimiter(1)  # for what is not counted
        self._requests = 0
        self._reads_month = False
        self._free_bytes = body_bytes

    @classmethod
    def of(cls, settings: Settings) -> "Load":
        """Return the limits of an installation."""
        requests = REQUESTS_PER_CONNECTION * settings.api_connections
        return cls(requests, LARGEST_BODIES * settings.api_max_body_bytes)

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is in flight.

        Raises:
            Problem: 503 if there are too many.
        """
        if self._requests >= self.most_requests:
            raise _busy("requests")
        self._requests += 1
        try:
            yield
        finally:
            self._requests -= 1

    @contextmanager
    def whole_month(self) -> Iterator[None]:
        """Let one request at a time read a whole month.

        Raises:
            Problem: 503 if another one does.
        """
        if self._reads_month:
            raise _busy("requests that read a whole month")
        self._reads_month = True
        try:
            yield
        finally:
            self._reads_month = False

    def take(self, length: int) -> None:
        """Reserve room for a part of a body.

        Raises:
            Problem: 503 if there is none.
        """
        if length > self._free_bytes:
            raise _busy("bodies of requests")
        self._free_bytes -= length

    def give_back(self, length: int) -> None:
        """Free the room of a body that is no longer needed."""
        self._free_bytes += length


class Limited:
    """Lets requests in as long as there is room."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] != "http" or scope["path"] in UNCOUNTED:
            await self._app(scope, receive, send)
            return
        load: Load = scope["app"].state.tally.load
        try:
            with load.request():
                await self._app(scope, receive, send)
        except Problem as problem:  # of the load: those of handlers have been answered within
            await problem.answer()(scope, receive, send)


def _busy(what: str) -> Problem:
    detail = f"this process has as many {what} in flight as it takes; try again. Nothing of this one was kept"
    return Problem(503, "unavailable", detail, {"Retry-After": _RETRY_AFTER})
