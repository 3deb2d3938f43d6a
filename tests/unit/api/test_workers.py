"""The processes of the server, played by small programs: when all are ready, when one is replaced, how they end."""

import os
import socket
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tally.api.workers import Workers
from tally.domain.errors import Unavailable

# What serves: says that it is ready, and ends with its parent.
SERVING = "import os; os.write(1, b'ready\\n'); os.read(0, 1)"
DYING = "import os; os.write(1, b'ready\\n')"
BROKEN = "import os; os._exit(7)"
REFUSING = "import os; os.write(1, b'there is no database\\n'); os._exit(1)"
DEAF = "import os, signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); os.write(1, b'ready\\n'); signal.pause()"


class Enough(Exception):
    """Ends a run, like a signal."""


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def workers(listener: socket.socket, program: str, count: int, say: Callable[[str], None] = print) -> Workers:
    return Workers(listener, count, os.environ, say, command=(sys.executable, "-c", program))


def enough(*_: object) -> None:
    raise Enough


def test_it_is_said_once_all_are_ready(listener: socket.socket) -> None:
    """Not after the first one."""
    served = workers(listener, SERVING, 2)
    with pytest.raises(Enough):
        served.run(enough, lambda: None)


def test_what_cannot_start_ends_everything_with_its_own_words(listener: socket.socket) -> None:
    """One line, and no other process is left."""
    with pytest.raises(Unavailable, match=r"^there is no database$"):
        workers(listener, REFUSING, 2).run(enough, lambda: None)


def test_what_is_needed_and_ends_ends_everything(listener: socket.socket) -> None:
    """It is looked after while nothing happens."""
    with pytest.raises(Enough):
        workers(listener, SERVING, 1).run(lambda: None, enough)


def test_what_dies_before_it_could_serve_ends_everything(listener: socket.socket) -> None:
    """It would do so again and again."""
    with pytest.raises(Unavailable, match="ended with status 7 before it could serve"):
        workers(listener, BROKEN, 2).run(enough, lambda: None)


def test_one_that_dies_is_replaced(listener: socket.socket) -> None:
    """And that is said; one that dies at once is not replaced without a pause."""
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 2:
            raise Enough

    begin = time.monotonic()
    with pytest.raises(Enough):
        workers(listener, DYING, 1, say).run(lambda: None, lambda: None)
    assert all("ended with status 0; another takes its place" in line for line in said)
    assert time.monotonic() - begin >= 1


def test_one_that_does_not_listen_is_killed(listener: socket.socket, monkeypatch: pytest.MonkeyPatch) -> None:
    """Patience has an end, as has a second Ctrl-C."""
    monkeypatch.setattr("tally.api.workers.SHUTDOWN_SECONDS", 0)
    monkeypatch.setattr("tally.api.workers._PATIENCE", 0)
    with pytest.raises(Enough):
        workers(listener, DEAF, 1).run(enough, lambda: None)
