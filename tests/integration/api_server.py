"""A live Reporting API for tests: a server on a free port, and a client that holds every answer to the contract."""

import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import Any

import requests
import uvicorn
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tally.api import contract
from tally.api.app import create_app
from tally.api.auth.caller import Authenticator, Development
from tally.api.protocol import BoundedProtocol
from tally.api.state import AdapterFactory, open_state
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
    """Serve the API on a free port of the loopback interface for a block, without authentication unless told."""
    home = Settings(home=Path("/nowhere"))
    databases = Databases(reporting_url, metering_url, "")
    app = create_app(
        lambda: open_state(
            replace(home, **settings), databases, clock, authenticator or Development(), adapters or {}
        )
    )
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        config = uvicorn.Config(app, http=protocol, log_level="warning", lifespan="on", proxy_headers=False)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        assert server.started, "the server did not start"
        try:
            yield Client(f"http://127.0.0.1:{listener.getsockname()[1]}")
        finally:
            server.should_exit = True
            thread.join()
