"""One process of the server: ``python -m tally.api.worker DESCRIPTOR``, started by workers.py.

Its argument is the descriptor of the listening socket that it inherits.
"""

import asyncio
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TextIO

import uvicorn
from fastapi import FastAPI

from tally.api.acceptor import Acceptor
from tally.api.app import create_app
from tally.api.auth.authenticator import caller_check
from tally.api.auth.caller import Authenticator, Development
from tally.api.protocol import BoundedProtocol
from tally.api.state import State, open_state
from tally.api.workers import DEVELOPMENT, READY, SHUTDOWN_SECONDS
from tally.domain.errors import TallyError
from tally.services.adapters import adapters
from tally.services.installation import Databases
from tally.settings import Settings

# How long a thread that decodes a batch may keep others waiting. A single event asks the database a dozen times, and
# waits after each answer: with Python's 5 ms, its 99th percentile beside batches is twice as long.
_SWITCH_SECONDS = 0.0005
# How many objects more there are before garbage is looked for. A batch makes ten thousands, none of them in cycles:
# with Python's 700, looking takes a quarter of the time of ingestion, and all else waits for it.
_GARBAGE = (50_000, 20, 100)
_CONNECTIONS = 1000  # of clients to one process; what is in flight on them is limited by load.py


class _Server(uvicorn.Server):
    """Takes its part of the connections, and says when it serves."""

    def __init__(self, config: uvicorn.Config, listener: socket.socket, parent: TextIO) -> None:
        super().__init__(config)
        self._listener = listener
        self._parent = parent

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:  # noqa: ARG002 - the listener it is
        """Start to serve, and say so."""
        await super().startup([])
        if self.started:
            acceptor = Acceptor(self._listener, self._protocol, self.server_state.connections)
            self._accepting = asyncio.create_task(acceptor.run())
            _tell(self._parent, READY)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more connections, and let requests end."""
        self._accepting.cancel()
        self._listener.close()
        await super().shutdown(sockets)

    def _protocol(self) -> asyncio.Protocol:
        protocol: asyncio.Protocol = self.config.http_protocol_class(  # type: ignore[call-arg]
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
        return protocol


def main(descriptor: int) -> int:
    """Serve until the parent ends, or says that it is enough."""
    parent = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints into the log
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.ERROR)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    sys.setswitchinterval(_SWITCH_SECONDS)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    try:
        _serve(socket.socket(fileno=descriptor), parent)
    except Exception as error:  # noqa: BLE001 - the last door: one line leaves it
        _tell(parent, _line(error))
        return 1
    return 0


def _serve(listener: socket.socket, parent: TextIO) -> None:
    development = os.environ.pop(DEVELOPMENT, "") == "1"
    settings = Settings.from_environment()
    databases = Databases(settings.reporting_url, settings.metering_url, settings.dagster_url)
    authenticator: Authenticator = Development() if development else caller_check(settings, _now)
    with open_state(settings, databases, _now, authenticator, adapters()) as state:
        app = _application(state, development=development)
        _spare_garbage_collection()
        _Server(_configuration(app), listener, parent).run()


def _spare_garbage_collection() -> None:
    """Never look again at what is there for good: modules, routes, schemas."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GARBAGE)


def _application(state: State, *, development: bool) -> FastAPI:
    return create_app(lambda: nullcontext(state), loopback_only=development)


def _configuration(app: FastAPI) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        log_config=None,
        log_level="error",
        access_log=False,
        http=BoundedProtocol,
        server_header=False,
        proxy_headers=False,  # the peer's address decides whether a certificate header is believed
        ws="none",
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=SHUTDOWN_SECONDS,
    )


def _end_with_parent() -> None:
    """Wait for the end of standard input, which the parent holds; then end, if need be by force."""
    while os.read(0, 1):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(SHUTDOWN_SECONDS)
    os._exit(1)


def _now() -> datetime:
    return datetime.now(UTC)


def _tell(parent: TextIO, line: str) -> None:
    parent.write(f"{line}\n")
    parent.flush()


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    if isinstance(error, TallyError):
        return text
    place = traceback.extract_tb(error.__traceback__)[-1]
    return f"the API does not start: {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {text}"


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
