"""Errors as the API tells them: problem documents (RFC 9457), one stable type for each kind (docs/reference/api.md)."""

from collections.abc import Callable, Mapping
from typing import Any

import psycopg
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from psycopg_pool import PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from tally.api import contract
from tally.api.answers import JsonAnswer
from tally.domain.errors import InvalidEvent, InvalidInput, NotFound, Refused, TallyError, Unavailable

METHOD_NOT_ALLOWED = 405
MEDIA_TYPE = "application/problem+json"
RETRY_AFTER = "5"  # seconds; a restarted PostgreSQL answers by then


class Problem(TallyError):
    """An answer that says why a request was not done; ``slug`` becomes its type."""

    def __init__(
        self,
        status: int,
        slug: str,
        detail: str,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.slug = slug
        self.detail = detail
        self.headers = dict(headers or {})
        self.more = more

    def answer(self) -> Response:
        """Write it."""
        title = self.slug.replace("-", " ").capitalize()
        content = {
            "type": f"urn:tally:problem:{self.slug}",
            "title": title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }
        return JsonAnswer(content, self.status, self.headers, media_type=MEDIA_TYPE)


def unauthenticated(detail: str) -> Problem:
    """Say that the caller is not known."""
    return Problem(401, "unauthenticated", detail, {"WWW-Authenticate": 'Bearer realm="tally"'})


def forbidden(detail: str) -> Problem:
    """Say that the caller is known, and may not."""
    return Problem(403, "forbidden", detail)


def problem_of(error: Exception) -> Problem:
    """Tell any error as a problem; what nobody foresaw tells nothing of its inside."""
    for kind, tell in _TOLD:
        if isinstance(error, kind):
            return tell(error)
    return Problem(500, "internal-error", "an error of the server, which its log tells of")


def handle_problems(app: FastAPI) -> None:
    """Make every error of an app a problem document."""

    async def handler(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == METHOD_NOT_ALLOWED:
            problem.headers["Allow"] = _methods(request)
        return problem.answer()

    # The one for Exception is the outermost: the server logs the error after the answer is sent.
    for kind, _ in _TOLD:
        app.add_exception_handler(kind, handler)
    app.add_exception_handler(Exception, handler)


def _methods(request: Request) -> str:
    """All methods of an address; the framework knows only those of one of its routes."""
    item = contract.document()["paths"].get(getattr(request.scope.get("route"), "path_format", ""), ())
    methods = [method.upper() for method in contract.METHODS if method in item]
    return ", ".join(["GET", "HEAD", *methods[1:]] if "GET" in methods else methods)


def _unavailable(detail: str) -> Problem:
    return Problem(503, "unavailable", detail, {"Retry-After": RETRY_AFTER})


def _fault(error: Mapping[str, Any]) -> str:
    place, name = error["loc"][0], error["loc"][-1]
    message = str(error["msg"]).removeprefix("Value error, ")
    return f"{name} in the {place}: {message[:300]}"


def _of_the_framework(error: HTTPException) -> Problem:
    slugs = {404: "not-found", 405: "method-not-allowed"}
    details = {
        404: "there is nothing at this address; /docs lists what there is",
        405: "this address does not take this method; /docs lists what it takes",
    }
    slug = slugs.get(error.status_code, "invalid-request")
    detail = details.get(error.status_code, str(error.detail))
    return Problem(error.status_code, slug, detail, error.headers)


# What is told of each kind of error; the first that fits counts.
_TOLD: tuple[tuple[type[Exception], Callable[[Any], Problem]], ...] = (
    (Problem, lambda error: error),
    (InvalidEvent, lambda error: Problem(400, "invalid-event", error.detail, reason=error.reason)),
    (InvalidInput, lambda error: Problem(400, "invalid-request", str(error))),
    (NotFound, lambda error: Problem(404, "not-found", str(error))),
    (Refused, lambda error: Problem(409, "refused", str(error), reasons=list(error.reasons))),
    (Unavailable, lambda error: _unavailable(str(error))),
    (PoolTimeout, lambda _: _unavailable("no connection to the database is free; try again")),
    (psycopg.errors.QueryCanceled, lambda _: _unavailable("the database took too long; ask for less, or try again")),
    (psycopg.OperationalError, lambda _: _unavailable("the database does not answer; try again")),
    (psycopg.errors.ReadOnlySqlTransaction, lambda _: _unavailable("the database takes no writes now; try again")),
    (psycopg.InterfaceError, lambda _: _unavailable("the database does not answer; try again")),
    (ClientDisconnect, lambda _: Problem(400, "invalid-request", "the connection ended within the body")),
    (RequestValidationError, lambda error: Problem(400, "invalid-request", "; ".join(map(_fault, error.errors()[:5])))),
    (HTTPException, _of_the_framework),
)
