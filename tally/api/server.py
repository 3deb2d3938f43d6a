"""Serving the application: one process or several, with uvicorn."""

import os
import socket
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import uvicorn
from fastapi import FastAPI

from tally.api.app import create_app
from tally.api.auth.authenticator import caller_check
from tally.api.auth.caller import Development
from tally.api.metrics import SEVERAL_PROCESSES
from tally.api.state import open_state
from tally.domain.errors import InvalidInput
from tally.services.installation import Databases
from tally.settings import Settings, is_loopback

DEVELOPMENT = "TALLY_API_DEVELOPMENT"  # set for the processes of a server without authentication
_CONCURRENCY = 512  # requests in flight in one process; more are answered 503, and senders repeat them
_SHUTDOWN_SECONDS = 20


def serve(
    settings: Settings, databases: Databases, host: str, *, development: bool, say: Callable[[str], None]
) -> None:
    """Serve the API until this process is interrupted.

    ``development`` serves without authentication, on the loopback interface only.

    Raises:
        InvalidInput: if the address cannot be used.
    """
    if development and not is_loopback(host):
        raise InvalidInput(f"without authentication the API serves this machine only: {host} is not 127.0.0.1 or ::1")
    _refuse_taken(host, settings.api_port)
    if development:
        say("WITHOUT AUTHENTICATION: whoever reaches this port is an operator. For development only.")
    say(f"API       http://{_in_url(host)}:{settings.api_port}   documentation at /docs. Ctrl-C stops it.")
    with _environment(settings, databases, development=development):
        uvicorn.run(
            "tally.api.server:application",
            factory=True,
            host=host,
            port=settings.api_port,
            workers=settings.api_workers,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # the peer's address decides whether a certificate header is believed
            limit_concurrency=_CONCURRENCY,
            timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        )


def application() -> FastAPI:
    """Make the application of one process from its environment."""
    development = os.environ.pop(DEVELOPMENT, "") == "1"
    settings = Settings.from_environment()
    databases = Databases(settings.reporting_url, settings.metering_url, settings.dagster_url)
    authenticator = Development() if development else caller_check(settings, _now)
    return create_app(lambda: open_state(settings, databases, _now, authenticator, {}))


def _now() -> datetime:
    return datetime.now(UTC)


@contextmanager
def _environment(settings: Settings, databases: Databases, *, development: bool) -> Iterator[None]:
    """Tell the processes of the server where the databases are, and where their metrics add up."""
    with tempfile.TemporaryDirectory(prefix="tally-metrics-") as folder:
        os.environ |= {
            "TALLY_HOME": str(settings.home),
            "TALLY_REPORTING_URL": databases.reporting_url,
            "TALLY_METERING_URL": databases.metering_url,
            "TALLY_DAGSTER_URL": databases.dagster_url,
            DEVELOPMENT: "1" if development else "0",
        }
        if settings.api_workers > 1:
            os.environ[SEVERAL_PROCESSES] = folder
        yield


def _in_url(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _refuse_taken(host: str, port: int) -> None:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:
            raise InvalidInput(
                f"the API cannot listen on {host}:{port}: {error}; name another --host or TALLY_API_PORT"
            ) from None
