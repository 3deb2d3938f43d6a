"""What handlers ask for: the caller, connections, the body. Declared as the types of their parameters."""

from collections.abc import AsyncIterator, Iterator
from typing import Annotated, Any
from urllib.parse import unquote_to_bytes

from fastapi import Depends, Request

from tally.api.contract import Operation, operations
from tally.api.problems import Problem, forbidden, unauthenticated
from tally.api.state import State, state_of
from tally.domain.errors import InvalidEvent, InvalidInput
from tally.domain.event import decode_json
from tally.domain.principal import Principal, Role
from tally.store.database import Connection


def operation_of(request: Request) -> Operation:
    """Return what the contract says of the operation that a request is for."""
    return operations()[request.scope["route"].operation_id]


async def known_parameters(request: Request) -> None:
    """Refuse query parameters that the contract does not know: a misspelt filter would show everything."""
    _check_text(request)
    operation = operation_of(request)
    names = [name for name, _ in request.query_params.multi_items()]
    for name in names:
        if name not in operation.parameters:
            expected = ", ".join(sorted(operation.parameters)) or "none"
            raise InvalidInput(f"{name[:60]!r} is no parameter of this address; it takes {expected}")
    if len(names) != len(set(names)):
        raise InvalidInput("a parameter is given twice")


def _check_text(request: Request) -> None:
    """Refuse an address that is not UTF-8: read with substitutes, it would name something else."""
    try:
        for part in (request.scope["raw_path"], request.scope["query_string"]):
            unquote_to_bytes(part).decode()
    except UnicodeDecodeError:
        raise InvalidInput("the address is not UTF-8; write it percent-encoded") from None


def caller(request: Request) -> Principal:
    """Return who calls, after asking the contract whether this caller may.

    Raises:
        Problem: 401 if the caller is not known, 403 if the operation is not for its role.
    """
    state, operation = state_of(request), operation_of(request)
    peer = request.client.host if request.client else ""
    principal = state.authenticator.authenticate(request.headers, peer, state.reporting.connection)
    if principal is None:
        raise unauthenticated("say who you are: Authorization: Bearer <token>")
    if operation.roles is not None and principal.role not in operation.roles:
        raise forbidden(f"{operation.id} is not for the role {principal.role}")
    return principal


async def in_process(request: Request) -> State:
    """Return the state, without a thread: a dependency that is no coroutine gets one."""
    return state_of(request)


async def alone(
    state: Annotated[State, Depends(in_process)], _: Annotated[Principal, Depends(caller)]
) -> AsyncIterator[None]:
    """Be the one request that reads a whole month; another one is told to come again."""
    with state.load.whole_month():
        yield


def reporting(state: Annotated[State, Depends(in_process)]) -> Iterator[Connection]:
    """A connection to the reporting database."""
    with state.reporting.connection() as connection:
        yield connection


def metering(state: Annotated[State, Depends(in_process)]) -> Iterator[Connection]:
    """A connection to the metering database."""
    with state.metering.connection() as connection:
        yield connection


async def raw_body(request: Request, _: Annotated[Principal, Depends(caller)]) -> AsyncIterator[bytes]:
    """Read the body of a caller who may send one, as long as it is not too large.

    Raises:
        Problem: 413 or 415; 503 if the bodies of other requests leave no room. Nothing of the body is kept.
    """
    check_media_type(request)
    state = state_of(request)
    limit = state.settings.api_max_body_bytes
    told = request.headers.get("content-length", "0")
    if told.isdecimal() and int(told) > limit:
        raise _too_large(limit)
    parts, length = [], 0
    try:
        async for part in request.stream():
            if length + len(part) > limit:
                raise _too_large(limit)
            state.load.take(len(part))
            length += len(part)
            parts.append(part)
        body = b"".join(parts)
        parts.clear()
        yield body
    finally:
        state.load.give_back(length)


def media_type_of(request: Request) -> str:
    """Return the media type of a body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


def check_media_type(request: Request) -> None:
    """Refuse a body that is not of a type that the operation takes, or that is compressed."""
    taken = operation_of(request).bodies
    if media_type_of(request) not in taken:
        raise Problem(415, "unsupported-media-type", f"the Content-Type is not {' or '.join(taken)}")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise Problem(415, "unsupported-media-type", "the body is compressed; send it as it is")


def json_body(request: Request, raw: Annotated[bytes, Depends(raw_body)]) -> dict[str, Any]:
    """Decode a body strictly, with decimals, and hold it against the contract.

    Raises:
        InvalidInput: naming what is wrong and where.
    """
    try:
        body = decode_json(raw)
    except InvalidEvent as error:
        raise InvalidInput(f"the body is refused: {error.detail}") from None
    operation_of(request).check_body(media_type_of(request), body)
    assert isinstance(body, dict), "the contract takes objects only"
    return body


def _too_large(limit: int) -> Problem:
    # The rest is not read: the connection cannot be used for another request.
    detail = f"the body is larger than {limit} bytes; send smaller batches. Nothing of it was kept"
    return Problem(413, "too-large", detail, {"Connection": "close"})


InProcess = Annotated[State, Depends(in_process)]
Caller = Annotated[Principal, Depends(caller)]
# Given back before the answer is sent: a client that does not read it would keep the connection from others.
Reporting = Annotated[Connection, Depends(reporting, scope="function")]
Metering = Annotated[Connection, Depends(metering, scope="function")]
Alone = Annotated[None, Depends(alone, scope="function")]
RawBody = Annotated[bytes, Depends(raw_body)]
JsonBody = Annotated[dict[str, Any], Depends(json_body)]


def check_project_filter(principal: Principal, cloud: str | None, project_id: str | None) -> None:
    """Refuse a filter by a project that the caller may not see; without one, lists hold only what it may.

    Raises:
        Problem: 403.
    """
    if principal.role is not Role.CONSUMER or project_id is None:
        return
    seen = principal.projects or frozenset()
    if not any(project_id == own and cloud in (None, its_cloud) for its_cloud, own in seen):
        raise forbidden(f"project {project_id} is not one of yours")
