"""What one connection may do to a server: nothing without end, neither what it sends nor how slowly."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from tally.api.protocol import HEAD_BYTES, BoundedProtocol
from tally.store.database import Connection
from tests.integration.api_server import Client, live_api
from tests.integration.sending import CREATE, count, event, send

PATIENCE_SECONDS = 60
EVENTS = b"POST /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


class Hasty(BoundedProtocol):
    """Waits for nobody."""

    request_seconds = 0.3
    stalled_seconds = 0.3


@pytest.fixture
def api(reporting_url: str, metering_url: str) -> Iterator[Client]:
    """A server that waits for nobody."""
    with live_api(reporting_url, metering_url, protocol=Hasty) as client:
        yield client


@contextmanager
def connection(api: Client) -> Iterator[socket.socket]:
    """A connection that nothing was sent on."""
    address = urlsplit(api.url)
    with socket.create_connection((address.hostname, address.port), timeout=PATIENCE_SECONDS) as opened:
        yield opened


def answer(connected: socket.socket) -> tuple[int, Any]:
    """Read until the server ends the connection: the status and the problem; 0 where it says nothing."""
    told = b""
    while part := connected.recv(65536):
        told += part
    if not told:
        return 0, None
    head, _, body = told.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"content-type: application/problem+json" in head
    return int(head.split()[1]), json.loads(body)


def keep_sending(connected: socket.socket, part: bytes) -> None:
    """Send until the server has ended the connection, which raises; a server that does not is given up some day."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while time.monotonic() < deadline:
        connected.sendall(part)
        time.sleep(0.02)


@pytest.mark.parametrize(
    "sent",
    [
        b"GARBAGE\r\n\r\n",
        b"FOO /api/v1/events HTTP/1.1\r\n\r\n",
        EVENTS + b"Content-Length: -1\r\n\r\n",
        b"\x16\x03\x01",
    ],
)
def test_what_is_no_http_is_told_by_a_problem_document(api: Client, sent: bytes) -> None:
    """Also an unknown method, and TLS where there is none."""
    with connection(api) as connected:
        connected.sendall(sent)
        status, problem = answer(connected)
    assert (status, problem["type"]) == (400, "urn:tally:problem:invalid-request")


@pytest.mark.parametrize(
    "begin", [b"GET / HTTP/1.1\r\nX: ", b"GET /?", EVENTS + b"a: b\r\n" * 9000], ids=["header", "address", "headers"]
)
def test_a_head_without_end_is_refused_before_it_fills_the_memory(
    reporting_url: str, metering_url: str, begin: bytes
) -> None:
    """Nobody knows the caller by then."""
    with live_api(reporting_url, metering_url) as api, connection(api) as connected:
        connected.sendall(begin)
        with pytest.raises(ConnectionError):
            keep_sending(connected, b"x" * 100_000)


def test_a_long_head_is_answered_431(api: Client) -> None:
    """With what the limit is; one that is nearly as long is taken."""
    with connection(api) as connected:
        connected.sendall(b"GET /healthz HTTP/1.1\r\nX: " + b"x" * HEAD_BYTES + b"\r\n\r\n")
        status, problem = answer(connected)
    assert (status, problem["type"]) == (431, "urn:tally:problem:headers-too-long")
    assert api.request("GET", "/healthz", headers={"X": "x" * (HEAD_BYTES - 1000)}).status_code == 200


def test_a_connection_on_which_nothing_is_asked_is_ended(api: Client) -> None:
    """Without a word: nobody asked."""
    with connection(api) as connected:
        assert answer(connected) == (0, None)


@pytest.mark.parametrize(
    "begin",
    [
        b"GET /healthz HTTP/1.1\r\n",
        EVENTS + b"Content-Length: 10\r\n\r\n[",
        EVENTS + b"Transfer-Encoding: chunked\r\n\r\n",
    ],
)
def test_a_request_that_does_not_come_whole_is_ended(api: Client, reporting: Connection, begin: bytes) -> None:
    """However often a byte of it comes: the whole has one time. Nothing of it is kept."""
    with connection(api) as connected:
        connected.sendall(begin)
        status, problem = answer(connected)
    assert (status, problem["type"]) == (408, "urn:tally:problem:too-slow")
    assert count(reporting, "events") == count(reporting, "rejected_events") == 0


def test_slow_requests_leave_the_others_alone(reporting_url: str, metering_url: str) -> None:
    """One that waits for its body holds neither a thread nor a connection to the database."""
    with live_api(reporting_url, metering_url, api_connections=1, protocol=Hasty) as api, connection(api) as slow:
        slow.sendall(EVENTS + b"Content-Length: 100\r\n\r\n[")
        assert api.post("/api/v1/events", []).status_code == 200


def test_an_answer_that_nobody_reads_is_no_burden(
    reporting: Connection, reporting_url: str, metering_url: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It ends with its connection, and holds no connection to the database until then."""
    send(reporting, *(event(f"e-{n}", "01T00:00:00", CREATE, payload={"note": "x" * 250_000}) for n in range(60)))
    with live_api(reporting_url, metering_url, api_connections=1, protocol=Hasty) as api, connection(api) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n" * 3)
        assert api.get("/api/v1/resources").status_code == 200
        with pytest.raises(ConnectionError):
            keep_sending(slow, b"G")
    assert not [record for record in caplog.records if record.levelname == "ERROR"]


def test_a_client_that_goes_away_is_no_error_of_the_server(api: Client, caplog: pytest.LogCaptureFixture) -> None:
    """It is not worth a line of the log."""
    with connection(api) as connected:
        connected.sendall(EVENTS + b"Content-Length: 100\r\n\r\n[")
        time.sleep(0.1)
    assert api.get("/healthz").status_code == 200
    assert not [record for record in caplog.records if record.levelname == "ERROR"]
