"""Serving the application: the address, the processes and what they share. One of them is worker.py."""

import os
import socket
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress

from tally.api.metrics import SEVERAL_PROCESSES
from tally.api.workers import DEVELOPMENT, Workers
from tally.domain.errors import InvalidInput, cause
from tally.services.installation import Databases
from tally.settings import Settings, is_loopback

_BACKLOG = 2048  # connections that wait to be taken


def serve(
    settings: Settings, databases: Databases, host: str, *, development: bool, say: Callable[[str], None]
) -> None:
    """Serve the API until Ctrl-C.

    ``development`` serves without authentication, on the loopback interface only.

    Raises:
        InvalidInput: if the address cannot be used.
        Unavailable: if the processes do not start, with the reason; if an embedded PostgreSQL ends by itself.
    """
    if development and not is_loopback(host):
        raise InvalidInput(f"without authentication the API serves this machine only: {host} is not 127.0.0.1 or ::1")
    with (
        _listening(host, settings.api_port) as listener,
        tempfile.TemporaryDirectory(prefix="tally-metrics-") as folder,
        suppress(KeyboardInterrupt),
    ):
        environment = _environment(settings, databases, folder, development=development)
        Workers(listener, settings.api_workers, environment, say).run(
            lambda: _announce(_url(listener), say, development=development), databases.check
        )


def _announce(url: str, say: Callable[[str], None], *, development: bool) -> None:
    if development:
        say("WITHOUT AUTHENTICATION: whoever reaches this port is an operator. For development only.")
    say(f"API       {url}   documentation at /docs. Ctrl-C stops it.")


def _environment(settings: Settings, databases: Databases, folder: str, *, development: bool) -> Mapping[str, str]:
    """Tell the processes where the databases are, and where their metrics add up."""
    return os.environ | {
        "TALLY_HOME": str(settings.home),
        "TALLY_REPORTING_URL": databases.reporting_url,
        "TALLY_METERING_URL": databases.metering_url,
        "TALLY_DAGSTER_URL": databases.dagster_url,
        DEVELOPMENT: "1" if development else "0",
        SEVERAL_PROCESSES: folder,
    }


def _url(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _listening(host: str, port: int) -> socket.socket:
    """Listen; whoever connects from now on waits for the first process that is ready."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except (OSError, OverflowError, UnicodeError) as error:
        listener.close()
        reason = cause(error)
        raise InvalidInput(
            f"the API cannot listen on {host}:{port}: {reason}; name another --host or TALLY_API_PORT"
        ) from None
    return listener
