"""The application: routes, errors, metrics and documentation put together. What serves it is server.py."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager
from importlib import import_module
from pkgutil import iter_modules
from typing import Any

from anyio.to_thread import current_default_thread_limiter
from fastapi import APIRouter, Depends, FastAPI
from fastapi_offline import FastAPIOffline
from starlette.concurrency import run_in_threadpool
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tally.api import contract, routes
from tally.api.dependencies import caller, known_parameters
from tally.api.load import Limited
from tally.api.loopback import LoopbackOnly
from tally.api.problems import handle_problems
from tally.api.state import State

OPEN_TO_EVERYBODY = ("operation",)


def create_app(open_state: Callable[[], AbstractContextManager[State]], *, loopback_only: bool = False) -> FastAPI:
    """Make the application; ``open_state`` opens what its requests share, when it starts.

    With ``loopback_only`` it refuses what is not addressed to this machine: a server without authentication needs that.
    """

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        opened = open_state()
        app.state.tally = state = await run_in_threadpool(opened.__enter__)
        current_default_thread_limiter().total_tokens = state.load.most_requests
        try:
            yield
        finally:
            await run_in_threadpool(opened.__exit__, None, None, None)

    app = FastAPIOffline(
        redoc_url=None,
        title=contract.document()["info"]["title"],
        lifespan=lifespan,
        redirect_slashes=False,  # Location would hold whatever Host the client sent
        swagger_ui_parameters={"defaultModelsExpandDepth": -1},
    )
    app.openapi = contract.document  # type: ignore[method-assign]
    for name, router in _routers():
        guards = [] if name in OPEN_TO_EVERYBODY else [Depends(caller), Depends(known_parameters)]
        app.include_router(router, dependencies=guards)
    handle_problems(app)
    if loopback_only:
        app.add_middleware(LoopbackOnly)
    app.add_middleware(Limited)
    app.add_middleware(Measured)  # it sees what the others refuse
    app.add_middleware(HeadAsGet)
    return app


def _routers() -> list[tuple[str, APIRouter]]:
    """Every module of tally.api.routes has one."""
    names = sorted(module.name for module in iter_modules(routes.__path__))
    return [(name, import_module(f"tally.api.routes.{name}").router) for name in names]


class HeadAsGet:
    """Serves HEAD as GET (RFC 9110): every answer to GET has one; the server sends its headers and no content."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and scope["method"] == "HEAD":
            scope = {**scope, "method": "GET"}
        await self._app(scope, receive, send)


class Measured:
    """Counts every request by its operation, status and time; adds the headers that every answer has."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin = time.perf_counter()
        status = 500

        async def noting(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message["headers"], (b"x-content-type-options", b"nosniff")]
            await send(message)

        try:
            await self._app(scope, receive, noting)
        finally:
            state: State = scope["app"].state.tally
            state.metrics.answered(_operation(scope), status, time.perf_counter() - begin)


def _operation(scope: Mapping[str, Any]) -> str:
    """Name the operation of a request; never by what the caller sent, which would make a metric of each."""
    return getattr(scope.get("route"), "operation_id", None) or "none"
