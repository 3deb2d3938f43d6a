"""Without authentication, pages of other hosts are refused: neither DNS rebinding nor a form is a door for them."""

import asyncio

import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message

from tally.api.loopback import LoopbackOnly


def status(*headers: tuple[str, str]) -> int:
    """What a request with some headers is answered."""
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/",
        "headers": [(name.encode(), value.encode()) for name, value in headers],
    }
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.request"}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(LoopbackOnly(PlainTextResponse("served"))(scope, receive, send))
    return int(sent[0]["status"])


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.1:8080", "localhost:8080", "[::1]:8080", "LOCALHOST"])
def test_what_is_addressed_to_this_machine_is_served(host: str) -> None:
    """By name or number, with any port, from its own pages too."""
    assert status(("host", host)) == 200
    assert status(("host", host), ("origin", "http://127.0.0.1:8080")) == 200


@pytest.mark.parametrize(
    "host", ["tally.example.com", "127.0.0.1.example.com", "localhost.example.com:80", "10.0.0.1", "", "[::1", ":80"]
)
def test_what_is_addressed_to_another_name_is_refused(host: str) -> None:
    """Even where that name leads here."""
    assert status(("host", host)) == 403
    assert status(("host", "127.0.0.1"), ("host", host)) == 403


def test_a_request_without_a_host_is_refused() -> None:
    """HTTP/1.0 has none; whoever speaks it is no developer's tool."""
    assert status() == 403


@pytest.mark.parametrize("origin", ["https://tally.example.com", "null", "http://127.0.0.1.example.com", "http://["])
def test_a_page_of_another_host_is_refused(origin: str) -> None:
    """A form can post to this machine; the browser says where it comes from."""
    assert status(("host", "127.0.0.1"), ("origin", origin)) == 403
