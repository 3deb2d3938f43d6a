"""A receiver of webhooks on the loopback interface: it checks what it gets, and answers as a test tells it."""

import hashlib
import threading
from base64 import b64decode, b64encode
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SECRET = "whsec_" + b64encode(bytes(range(32))).decode()

Answer = Callable[[BaseHTTPRequestHandler], None]


@dataclass(frozen=True)
class Message:
    """One request."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers["Idempotency-Key"]

    def is_signed(self) -> bool:
        """Whether its signature is right, computed from the definition of HMAC (RFC 2104), not as Tally does."""
        signed = f"{self.headers['webhook-id']}.{self.headers['webhook-timestamp']}.".encode() + self.body
        key = b64decode(SECRET.removeprefix("whsec_")).ljust(64, b"\0")
        inner = hashlib.sha256(bytes(byte ^ 0x36 for byte in key) + signed).digest()
        outer = hashlib.sha256(bytes(byte ^ 0x5C for byte in key) + inner).digest()
        return self.headers["webhook-signature"] == f"v1,{b64encode(outer).decode()}"


@dataclass
class Receiver:
    """What was received. ``answers`` are given in their order; afterwards every message is taken."""

    port: int = 0
    messages: list[Message] = field(default_factory=list)
    answers: list[Answer] = field(default_factory=list)
    answer: Answer | None = None  # instead of taking them
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hooks/s3cret-path"

    @property
    def times(self) -> Counter[str]:
        """How often each key came."""
        return Counter(message.key for message in self.messages)

    def take(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers["Content-Length"]))
        with self._lock:
            self.messages.append(Message(handler.path, dict(handler.headers), body))
            answer = self.answers.pop(0) if self.answers else self.answer
        (answer or says(204))(handler)


def says(status: int, body: bytes = b"", **headers: str) -> Answer:
    """Answer with a status."""

    def answer(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(status)
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)

    return answer


def hangs_up(handler: BaseHTTPRequestHandler) -> None:
    """Break the connection off without an answer."""
    handler.close_connection = True


@contextmanager
def receiving() -> Iterator[Receiver]:
    """A receiver for a block."""
    receiver = Receiver()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            receiver.take(self)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Say nothing."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True  # one that stalls is not waited for
        block_on_close = False

        def handle_error(self, request: object, client_address: object) -> None:
            """A client that was killed is no fault of the receiver."""

    with Server(("127.0.0.1", 0), Handler) as server:
        receiver.port = server.server_port
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield receiver
        finally:
            server.shutdown()
            thread.join()
