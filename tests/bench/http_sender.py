"""The client of http_ingest, a process of its own: ``python -m tests.bench.http_sender URL FOLDER``.

FOLDER holds the bodies to send, one batch a file. It reads commands from standard input, one JSON object a line, and
answers each with one:

- ``{"do": "load", "threads", "seconds", "cycle", "per_second"}`` sends batches, every round of all bodies under names
  of its own (they begin with ``cycle``), or the first round again and again if ``cycle`` is null; one round if
  ``seconds`` is null; ``per_second`` is a limit of events, or null. Answers ``{"events", "seconds", "next_cycle"}``.
- ``{"do": "singles", "seconds", "per_second"}`` sends single events, and answers ``{"milliseconds": [...]}``.
"""

import http.client
import json
import sys
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

EVENTS = "/api/v1/events"
HEADERS = {"Content-Type": "application/json"}
EVENTS_PER_BATCH = 1000


class Load:
    """Batches that several threads send, each as soon as its last one was answered."""

    def __init__(self, url: str, bodies: list[bytes], command: Mapping[str, Any]) -> None:
        self._url = url
        self._bodies = bodies
        self._status = "deduplicated" if command["cycle"] is None else "accepted"
        self._first_cycle = command["cycle"]
        self._per_second = command["per_second"]
        self._seconds = command["seconds"]
        self._threads = command["threads"]
        self._lock = threading.Lock()
        self._next = 0
        self._sent = 0
        self._failure = ""

    def run(self) -> dict[str, object]:
        """Send for the given time, and say what was sent in which."""
        self._begin = time.perf_counter()
        threads = [threading.Thread(target=self._send) for _ in range(self._threads)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if self._failure:
            raise AssertionError(self._failure)
        seconds = time.perf_counter() - self._begin
        return {"events": self._sent * EVENTS_PER_BATCH, "seconds": seconds, "next_cycle": self._cycle(self._next) + 1}

    def _send(self) -> None:
        connection = connect(self._url)
        while not self._failure:
            with self._lock:
                number, self._next = self._next, self._next + 1
            if not self._wait_for(number):
                return
            connection.request("POST", EVENTS, self._body(number), HEADERS)
            answer = connection.getresponse()
            text = answer.read()
            if answer.status != 200 or f'"{self._status}":{EVENTS_PER_BATCH}'.encode() not in text[:200]:
                self._failure = f"{answer.status} {text[:500]!r}"
            with self._lock:
                self._sent += 1

    def _wait_for(self, number: int) -> bool:
        """Wait until a batch is due; False if there is no time left."""
        if self._per_second is not None:
            due = self._begin + number * EVENTS_PER_BATCH / self._per_second
            time.sleep(max(0.0, due - time.perf_counter()))
        if self._seconds is None:
            return number < len(self._bodies)
        return time.perf_counter() - self._begin < self._seconds

    def _body(self, number: int) -> bytes:
        body = self._bodies[number % len(self._bodies)]
        return body if self._first_cycle is None else renamed(body, self._cycle(number))

    def _cycle(self, number: int) -> int:
        return int(self._first_cycle or 0) + number // len(self._bodies)


def renamed(body: bytes, cycle: int) -> bytes:
    """The same events of other resources; the first round keeps its names."""
    if cycle == 0:
        return body
    for name in (b'"event_id": "', b'"resource_id": "'):
        body = body.replace(name, name + b"%d-" % cycle)
    return body


def singles(url: str, bodies: list[bytes], command: Mapping[str, Any]) -> dict[str, object]:
    """Send events of the first body one by one, under new names, at a steady pace; how long each took."""
    some = [json.dumps(event).encode() for event in json.loads(bodies[0])]
    connection = connect(url)
    begin, taken = time.perf_counter(), []
    count = int(command["seconds"] * command["per_second"])
    for number in range(count):
        time.sleep(max(0.0, begin + number / command["per_second"] - time.perf_counter()))
        body = renamed(some[number % len(some)], 1_000_000_000 + number // len(some))
        start = time.perf_counter()
        connection.request("POST", EVENTS, body, HEADERS)
        answer = connection.getresponse()
        text = answer.read()
        taken.append((time.perf_counter() - start) * 1000)
        if answer.status != 201:
            raise AssertionError(f"{answer.status} {text[:500]!r}")
    return {"milliseconds": taken}


def connect(url: str) -> http.client.HTTPConnection:
    """Open a connection that stays open."""
    parts = urlsplit(url)
    return http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=120)


def main(url: str, folder: str) -> None:
    """Do what is asked for."""
    bodies = [path.read_bytes() for path in sorted(Path(folder).iterdir())]
    for line in sys.stdin:
        command = json.loads(line)
        done = singles(url, bodies, command) if command["do"] == "singles" else Load(url, bodies, command).run()
        sys.stdout.write(json.dumps(done) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
