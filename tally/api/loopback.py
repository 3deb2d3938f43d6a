"""What a server without authentication refuses: requests that a browser sends for a page of somewhere else.

It listens on the loopback interface only, but every page that a browser of this machine shows can reach that. A page
whose name was made to lead here (DNS rebinding) gives itself away by Host, any other page by Origin.
"""

from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from tally.api.problems import forbidden
from tally.settings import is_loopback


class LoopbackOnly:
    """Serves what is addressed to this machine and does not come from a page of another one."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or refuse it."""
        if scope["type"] == "http" and not _from_here(Headers(scope=scope)):
            detail = "without authentication the API serves http://127.0.0.1 and its own pages only"
            await forbidden(detail).answer()(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _from_here(headers: Headers) -> bool:
    hosts = [f"//{host}" for host in headers.getlist("host")] or ["//"]
    return all(_is_loopback(url) for url in [*hosts, *headers.getlist("origin")])


def _is_loopback(url: str) -> bool:
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
