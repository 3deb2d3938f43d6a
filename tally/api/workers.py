"""The processes of the server: started, kept, stopped. What each of them does is worker.py.

uvicorn's own supervisor is not used: its workers outlive a parent that is killed and keep the port, a worker that a
busy machine starts slowly is taken for dead, and one that cannot start tells it by a traceback.

A worker holds two pipes. While its standard input is open, the parent lives; when that ends, the worker ends. On its
standard output it says ``ready``, or why it cannot start; when that ends, the worker is dead and another takes its
place.
"""

import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from socket import socket

from tally.domain.errors import Unavailable

DEVELOPMENT = "TALLY_API_DEVELOPMENT"  # set to 1 for processes that serve without authentication
READY = "ready"
SHUTDOWN_SECONDS = 20  # for requests that are being answered
_RESTART_SECONDS = 1  # the shortest life of a worker that is replaced at once
_CHECK_SECONDS = 1
_PATIENCE = 5  # seconds beyond SHUTDOWN_SECONDS before a worker is killed

Process = subprocess.Popen[str]


class Workers:
    """Processes that serve one listening socket."""

    def __init__(
        self,
        listener: socket,
        count: int,
        environment: Mapping[str, str],
        say: Callable[[str], None],
        command: Sequence[str] = (sys.executable, "-m", "tally.api.worker"),
    ) -> None:
        """Serve ``listener`` by ``count`` processes, each a ``command`` with the descriptor of the socket."""
        self._command = command
        self._listener = listener
        self._count = count
        self._environment = dict(environment)
        self._say = say
        self._selector = DefaultSelector()
        self._started: dict[Process, float] = {}
        self._ready: set[Process] = set()

    def run(self, when_ready: Callable[[], None], check: Callable[[], None]) -> None:
        """Keep the processes running until an exception, such as that of a signal, ends it; then stop them.

        ``check`` is called every second or so; what it raises ends it, too.

        Raises:
            Unavailable: if the first ones cannot start, with what they say.
        """
        told = False
        try:
            for _ in range(self._count):
                self._start()
            while True:
                for key, _ in self._selector.select(_CHECK_SECONDS):
                    self._hear(key.data, starting=not told)
                check()
                if not told and len(self._ready) == self._count:
                    told = True
                    when_ready()
        finally:
            self._stop()

    def _start(self) -> None:
        descriptor = self._listener.fileno()
        worker: Process = subprocess.Popen(
            [*self._command, str(descriptor)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=self._environment,
            pass_fds=[descriptor],
            start_new_session=True,  # Ctrl-C is for the parent, which tells them
        )
        self._started[worker] = time.monotonic()
        assert worker.stdout is not None
        self._selector.register(worker.stdout, EVENT_READ, worker)

    def _hear(self, worker: Process, *, starting: bool) -> None:
        assert worker.stdout is not None
        line = worker.stdout.readline().strip()
        if line == READY:
            self._ready.add(worker)
        elif line and starting:
            raise Unavailable(line)
        elif line:
            self._say(f"tally: {line}")
        elif starting and worker not in self._ready:
            raise Unavailable(f"a process of the API ended with status {worker.wait()} before it could serve")
        else:
            self._replace(worker)

    def _replace(self, worker: Process) -> None:
        lived = time.monotonic() - self._started.pop(worker)
        self._forget(worker)
        status = worker.wait()
        self._say(f"tally: process {worker.pid} of the API ended with status {status}; another takes its place")
        time.sleep(max(0, _RESTART_SECONDS - lived))
        self._start()

    def _forget(self, worker: Process) -> None:
        assert worker.stdin is not None
        assert worker.stdout is not None
        self._selector.unregister(worker.stdout)
        self._ready.discard(worker)
        worker.stdout.close()
        with suppress(BrokenPipeError):
            worker.stdin.close()

    def _stop(self) -> None:
        """Let requests end; a second signal, or patience at its end, kills."""
        for worker in self._started:
            worker.terminate()
        deadline = time.monotonic() + SHUTDOWN_SECONDS + _PATIENCE
        try:
            for worker in self._started:
                with suppress(subprocess.TimeoutExpired):
                    worker.wait(max(0, deadline - time.monotonic()))
        finally:
            for worker in self._started:
                worker.kill()
                worker.wait()
                self._forget(worker)
            self._selector.close()
