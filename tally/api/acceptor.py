"""Taking the connections of a listening socket that several processes share, each its part.

Whoever is woken first would take all that wait: with the few connections that collectors keep open, one process then
works while another idles. So a process waits before it takes one, the longer the more it has: the one with the fewest
comes first.
"""

import asyncio
import socket
from collections.abc import Callable, Collection
from contextlib import suppress

_SECONDS_PER_CONNECTION = 0.001
_LONGEST_SECONDS = 0.01
_WITHOUT_DESCRIPTORS_SECONDS = 0.5


class Acceptor:
    """Makes a protocol of each connection; ``connections`` are those that are open."""

    def __init__(
        self, listener: socket.socket, protocol: Callable[[], asyncio.Protocol], connections: Collection[object]
    ) -> None:
        self._listener = listener
        self._protocol = protocol
        self._connections = connections

    async def run(self) -> None:
        """Take connections until this is cancelled."""
        loop = asyncio.get_running_loop()
        self._listener.setblocking(False)
        while True:
            await self._readable(loop)
            await asyncio.sleep(min(_LONGEST_SECONDS, _SECONDS_PER_CONNECTION * len(self._connections)))
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):  # another process has taken it; it has gone
                continue
            except OSError:  # no descriptor is left: connections that end bring some
                await asyncio.sleep(_WITHOUT_DESCRIPTORS_SECONDS)
                continue
            with suppress(OSError):  # it has gone already
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                await loop.connect_accepted_socket(self._protocol, connection)

    async def _readable(self, loop: asyncio.AbstractEventLoop) -> None:
        ready = loop.create_future()
        loop.add_reader(self._listener, _set, ready)
        try:
            await ready
        finally:
            loop.remove_reader(self._listener)


def _set(ready: "asyncio.Future[None]") -> None:
    if not ready.done():
        ready.set_result(None)
