"""A real VictoriaMetrics on a free port, with a directory of its own: the words of the tests of sampled counters."""

import json
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests

from tally.domain.instants import parse_instant
from tally.domain.samples import to_milliseconds

BINARY = "victoria-metrics"  # of Debian's package of this name
_START_SECONDS = 60


@dataclass(frozen=True)
class Victoria:
    """A server that runs."""

    url: str

    def write(self, labels: Mapping[str, str], samples: Mapping[str, float] | Sequence[tuple[int, float]]) -> None:
        """Store samples of one series, by instants such as 2026-03-01T00:00:00Z or by milliseconds."""
        if isinstance(samples, Mapping):
            samples = [(to_milliseconds(parse_instant(instant)), value) for instant, value in samples.items()]
        line = {
            "metric": dict(labels),
            "timestamps": [at for at, _ in samples],
            "values": [value for _, value in samples],
        }
        requests.post(f"{self.url}/api/v1/import", data=json.dumps(line), timeout=60).raise_for_status()

    def flush(self) -> None:
        """Let everything that was stored be found."""
        requests.get(f"{self.url}/internal/force_flush", timeout=60).raise_for_status()


@contextmanager
def running_victoria() -> Iterator[Victoria]:
    """Start a server, and leave nothing behind."""
    binary = shutil.which(BINARY)
    if binary is None:
        pytest.fail(f"{BINARY} is not installed, and counters are tested with it: apt-get install {BINARY}")
    folder = Path(tempfile.mkdtemp(prefix="tally-victoria-"))
    port = _free_port()
    arguments = [
        f"-storageDataPath={folder}", f"-httpListenAddr=127.0.0.1:{port}", "-retentionPeriod=100y",
        "-memory.allowedBytes=256MiB", "-loggerLevel=ERROR", "-selfScrapeInterval=0",
    ]  # fmt: skip
    with subprocess.Popen([binary, *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL) as process:
        try:
            victoria = Victoria(f"http://127.0.0.1:{port}")
            _wait(victoria, process)
            yield victoria
        finally:
            process.kill()
            process.wait()
            shutil.rmtree(folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(victoria: Victoria, process: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + _START_SECONDS
    while True:
        try:
            if requests.get(f"{victoria.url}/health", timeout=5).ok:
                return
        except requests.RequestException:
            pass
        assert process.poll() is None, f"{BINARY} ended with exit code {process.returncode}"
        assert time.monotonic() < deadline, f"{BINARY} does not answer at {victoria.url}"
        time.sleep(0.05)
