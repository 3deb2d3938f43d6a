"""A live Reporting API for tests: a server on a free port, and a client that holds every answer to the contract."""

import atexit
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import requests
import uvicorn
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tally.api import contract
from tally.api.app import create_app
from tally.api.auth.caller import Authenticator, Development
from tally.api.load import Load
from tally.api.protocol import BoundedProtocol
from tally.api.state import AdapterFactory, State, open_state
from tally.services.installation import Databases
from tally.settings import Settings

NOW = datetime(2026, 6, 1, tzinfo=UTC)


@dataclass
class Client:
    """Sends requests to a server, and fails if an answer is not one that the contract documents."""

    url: str
    headers: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False

    def get(self, path: str, **query: Any) -> requests.Response:
        return self.request("GET", path, params=query)

    def post(self, path: str, body: Any = None, **query: Any) -> requests.Response:
        return self.request("POST", path, json_body=body, params=query)

    def put(self, path: str, body: Any, **query: Any) -> requests.Response:
        return self.request("PUT", path, json_body=body, params=query)

    def patch(self, path: str, body: Any) -> requests.Response:
        return self.request("PATCH", path, json_body=body)

    def delete(self, path: str, **query: Any) -> requests.Response:
        return self.request("DELETE", path, params=query)

    def request(
        self,
        method: str,
        path: str,
        *,
        json_body: Any = None,
        data: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        params: Mapping[str, Any] | None = None,
    ) -> requests.Response:
        """Send a request: ``json_body`` as JSON, or ``data`` as it is."""
        sent = dict(self.headers)
        if json_body is not None:
            data = json.dumps(json_body).encode()
        if data is not None:
            sent["Content-Type"] = "application/json"
        response = self._session.request(
            method, self.url + path, data=data, params=params, headers=sent | dict(headers or {}), timeout=60
        )
        check_answer(method, path, response)
        return response

    def items(self, path: str, **query: Any) -> list[Any]:
        """All items of a list, page by page."""
        found: list[Any] = []
        while True:
            page = exact(self.get(path, **query))
            found += page["items"]
            if page["next_cursor"] is None:
                return found
            query["cursor"] = page["next_cursor"]


def exact(response: requests.Response) -> Any:
    """Read JSON with decimals."""
    return json.loads(response.content, parse_float=Decimal)


def check_answer(method: str, path: str, response: requests.Response) -> None:
    """Fail unless the contract documents an answer: its status, its media type, its schema."""
    template = next((name for name, pattern in _patterns() if pattern.fullmatch(path.partition("?")[0])), None)
    assert template is not None, f"the contract has no {path}"
    operation = contract.document()["paths"][template].get(method.lower())
    assert operation is not None, f"the contract has no {method} {template}"
    documented = operation["responses"].get(str(response.status_code))
    assert documented is not None, f"{method} {path} answers {response.status_code}: {response.text[:500]}"
    content = contract.resolved(documented)["content"]
    media_type = response.headers["Content-Type"].partition(";")[0]
    assert media_type in content, f"{method} {path} answers {media_type}"
    if "json" in media_type:
        faults = list(_validator(json.dumps(content[media_type]["schema"])).iter_errors(response.json()))
        assert not faults, f"{method} {path}: {faults[0].message} at {list(faults[0].absolute_path)}"


@lru_cache
def _patterns() -> list[tuple[str, re.Pattern[str]]]:
    """Templates without parameters come first: /rejected-events/replay is no id."""
    templates = sorted(contract.document()["paths"], key=lambda template: (template.count("{"), template))
    return [
        (template, re.compile(re.sub(r"\\\{(\w+)\\\}", _part, re.escape(template)))) for template in templates
    ]


def _part(name: re.Match[str]) -> str:
    return ".+" if name[1] == "resource_id" else "[^/]+"


@lru_cache
def _validator(schema: str) -> Draft202012Validator:
    resource = DRAFT202012.create_resource({**contract.document(), "$id": "urn:contract"})
    registry: Registry[Any] = Registry().with_resource("urn:contract", resource)
    text = schema.replace('"#/components', '"urn:contract#/components')
    return Draft202012Validator(json.loads(text), registry=registry)


class Server:
    """A server on a free port of the loopback interface; the state that its requests share comes and goes."""

    def __init__(self, protocol: type[BoundedProtocol]) -> None:
        self._app = create_app(lambda: nullcontext(SimpleNamespace(load=Load.of(_SETTINGS))))  # type: ignore[arg-type]
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        config = uvicorn.Config(self._app, http=protocol, log_level="warning", lifespan="on", proxy_headers=False)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, args=([self._listener],), daemon=True)
        self._thread.start()
        while not self._server.started and self._thread.is_alive():
            time.sleep(0.01)
        assert self._server.started, "the server did not start"

    @contextmanager
    def serving(self, state: AbstractContextManager[State]) -> Iterator[None]:
        """Answer requests out of a state for a block."""
        with state as opened:
            self._app.state.tally = opened
            yield

    def stop(self) -> None:
        """Wait until it has ended."""
        self._server.should_exit = True
        self._thread.join()
        self._listener.close()


_SETTINGS = Settings(home=Path("/nowhere"))
_idle: list[Server] = []  # to make one anew costs more than most tests


@contextmanager
def _server(protocol: type[BoundedProtocol]) -> Iterator[Server]:
    """A server that nobody else uses; one of the usual protocol is kept for who comes next."""
    kept = protocol is BoundedProtocol
    server = _idle.pop() if kept and _idle else Server(protocol)
    try:
        yield server
    finally:
        if kept:
            _idle.append(server)
        else:
            server.stop()


@atexit.register
def _stop_idle() -> None:
    for server in _idle:
        server.stop()


@contextmanager
def live_api(
    reporting_url: str,
    metering_url: str,
    *,
    authenticator: Authenticator | None = None,
    clock: Callable[[], datetime] = lambda: NOW,
    adapters: Mapping[str, AdapterFactory] | None = None,
    protocol: type[BoundedProtocol] = BoundedProtocol,
    **settings: Any,
) -> Iterator[Client]:
    """Serve the API for a block, without authentication unless told."""
    state = open_state(
        replace(_SETTINGS, **settings),
        Databases(reporting_url, metering_url, ""),
        clock,
        authenticator or Development(),
        adapters or {},
    )
    with _server(protocol) as server, server.serving(state):
        yield Client(server.url)
