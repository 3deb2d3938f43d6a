"""`tally api` as an installation runs it: processes of its own, which tests may kill."""

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.conftest import REPOSITORY
from tests.integration.api_server import Client

PATIENCE_SECONDS = 120
COMMAND = (sys.executable, "-m", "tally.cli", "api")

Urls = Mapping[str, str]  # reporting_url, metering_url, dagster_url; none for the embedded server


@dataclass
class Api:
    """A running server, and the lines that it has said until it was ready."""

    process: "subprocess.Popen[str]"
    client: Client
    lines: list[str]

    def workers(self) -> list[int]:
        """The numbers of its processes."""
        return worker_pids(self.process.pid)

    def stop(self, number: int) -> int:
        """Send a signal, and return the exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE_SECONDS)


def worker_pids(parent: int) -> list[int]:
    found = subprocess.run(
        ["/usr/bin/env", "pgrep", "-P", str(parent), "-f", "tally.api.worker"],
        capture_output=True,
        text=True,
        check=False,
    )
    return [int(line) for line in found.stdout.split()]


def runs(pid: int) -> bool:
    """Whether a process is there, and not merely waiting to be buried by whoever inherited it."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0] != "Z"
    return False


def answers(client: Client, path: str = "/readyz") -> bool:
    """Whether a server answers 200."""
    try:
        return client.get(path).status_code == 200
    except requests.RequestException:
        return False


def wait_until(condition: Callable[[], object]) -> None:
    """Return once a condition holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def environment(home: Path, port: int, urls: Urls, **settings: object) -> dict[str, str]:
    """The environment of `tally api`, with settings by their names without TALLY."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    named = {f"TALLY_{name.upper()}": str(value) for name, value in {**urls, **settings}.items()}
    return kept | {"TALLY_HOME": str(home), "TALLY_API_PORT": str(port)} | named


@contextmanager
def api_process(home: Path, urls: Urls, *, port: int = 0, **settings: object) -> Iterator[Api]:
    """Start `tally api --development`, and kill whatever of it is left after the block."""
    port = port or free_port()
    process = subprocess.Popen(
        [*COMMAND, "--development"],
        cwd=REPOSITORY,
        env=environment(home, port, urls, **settings),
        stderr=subprocess.PIPE,
        text=True,
    )
    workers: list[int] = []
    try:
        lines = _lines_until_ready(process)
        workers = worker_pids(process.pid)
        yield Api(process, Client(f"http://127.0.0.1:{port}"), lines)
    finally:
        workers += worker_pids(process.pid)
        process.kill()
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        process.wait()
        assert process.stderr is not None
        process.stderr.close()


def _lines_until_ready(process: "subprocess.Popen[str]") -> list[str]:
    assert process.stderr is not None
    lines: list[str] = []
    while not any(line.startswith("API ") for line in lines):
        lines.append(process.stderr.readline())
        assert lines[-1], f"it has ended: {lines}"
    return lines
