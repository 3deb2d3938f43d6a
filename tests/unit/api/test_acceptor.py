"""Connections are shared out between processes; here each is played by an event loop in a thread of its own."""

import asyncio
import socket
import threading
import time
from collections.abc import Iterator

import pytest

from tally.api.acceptor import Acceptor

PATIENCE_SECONDS = 30


class Held(asyncio.Protocol):
    """A connection that stays open."""

    def __init__(self, connections: set[object]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.add(transport)


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def accepting(listener: socket.socket, connections: set[object]) -> threading.Thread:
    """Take connections until the end of the test run."""

    def run() -> None:
        asyncio.run(Acceptor(listener.dup(), lambda: Held(connections), connections).run())

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def test_whoever_has_the_fewest_connections_takes_the_next(listener: socket.socket) -> None:
    """Neither is left without work."""
    mine: list[set[object]] = [set(), set()]
    for connections in mine:
        accepting(listener, connections)
    clients = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    for number in range(1, 21):
        clients.append(socket.create_connection(listener.getsockname()))
        while sum(map(len, mine)) < number:
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert min(map(len, mine)) >= 4
    for client in clients:
        client.close()


def test_one_alone_takes_all(listener: socket.socket) -> None:
    """However many come at once."""
    connections: set[object] = set()
    accepting(listener, connections)
    clients = [socket.create_connection(listener.getsockname()) for _ in range(30)]
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(connections) < len(clients):
        assert time.monotonic() < deadline
        time.sleep(0.001)
    for client in clients:
        client.close()
