"""Connections are shared out between processes; here each is played by a task of one event loop."""

import asyncio
import socket
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import pytest

from tally.api import acceptor
from tally.api.acceptor import Acceptor

PATIENCE_SECONDS = 60


class Held(asyncio.Protocol):
    """A connection that stays open."""

    def __init__(self, mine: set[object], arrivals: "asyncio.Queue[asyncio.BaseTransport]") -> None:
        self._mine, self._arrivals = mine, arrivals

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._mine.add(transport)
        self._arrivals.put_nowait(transport)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        yield listener


async def taken(listener: socket.socket, busy: Sequence[int], clients: int, *, at_once: bool) -> list[int]:
    """How many connections each of some processes has taken, which have had so many before.

    Clients come at once; or one by one, each after all processes have seen what became of the one before.
    """
    before: list[set[object]] = [set(range(connections)) for connections in busy]
    held = [mine.copy() for mine in before]
    arrivals: asyncio.Queue[asyncio.BaseTransport] = asyncio.Queue()
    with ExitStack() as stack:
        processes = [
            asyncio.ensure_future(
                Acceptor(stack.enter_context(listener.dup()), partial(Held, mine, arrivals), mine).run()
            )
            for mine in held
        ]
        async with asyncio.timeout(PATIENCE_SECONDS):
            for number in range(clients):
                stack.enter_context(socket.create_connection(listener.getsockname()))
                while not at_once and sum(map(len, held)) - sum(busy) <= number:
                    stack.callback((await arrivals.get()).close)
                    await asyncio.sleep(2 * acceptor._LONGEST_SECONDS)
            while sum(map(len, held)) - sum(busy) < clients:
                stack.callback((await arrivals.get()).close)
        for process in processes:
            process.cancel()
        await asyncio.gather(*processes, return_exceptions=True)
    return [len(mine - former) for mine, former in zip(held, before, strict=True)]


def test_whoever_has_the_fewest_connections_takes_the_next(listener: socket.socket) -> None:
    """Neither is left without work."""
    assert asyncio.run(taken(listener, [6, 0], 5, at_once=False)) == [0, 5]


def test_one_alone_takes_all(listener: socket.socket) -> None:
    """However many come at once."""
    assert asyncio.run(taken(listener, [0], 30, at_once=True)) == [30]
