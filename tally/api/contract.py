"""The contract, openapi.yaml, as the server uses it: who may call an operation, what it takes, how it is shown."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

import yaml
from jsonschema.exceptions import best_match
from jsonschema.protocols import Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from tally.domain.errors import InvalidInput
from tally.domain.principal import Role
from tally.services.size_schema import Draft202012WithDecimals

METHODS = ("get", "put", "post", "patch", "delete")
_DOCUMENT = "urn:tally:openapi"


@dataclass(frozen=True)
class Operation:
    """What the contract says of one operation; ``roles`` is None where it is open to everybody."""

    id: str
    roles: frozenset[Role] | None
    parameters: frozenset[str]  # names of the query parameters
    bodies: Mapping[str, Validator]  # media type -> validator of the body

    def check_body(self, media_type: str, body: Any) -> None:
        """Accept a decoded body or say what is wrong.

        Raises:
            InvalidInput: naming the place.
        """
        error = best_match(self.bodies[media_type].iter_errors(body))
        if error is not None:
            where = ".".join(map(str, error.absolute_path)) or "the body"
            raise InvalidInput(f"{where[:200]}: {error.message[:300]}")


@lru_cache
def document() -> dict[str, Any]:
    """Return the contract as it is served."""
    text = files("tally.api").joinpath("openapi.yaml").read_text(encoding="utf-8")
    content: dict[str, Any] = yaml.safe_load(text)
    return content


@lru_cache
def operations() -> Mapping[str, Operation]:
    """Return all operations by their ids."""
    resource = DRAFT202012.create_resource(document())
    registry: Registry[Any] = Registry().with_resource(_DOCUMENT, resource)
    return {
        item[method]["operationId"]: _operation(path, method, item, registry)
        for path, item in document()["paths"].items()
        for method in METHODS
        if method in item
    }


def _operation(path: str, method: str, item: Mapping[str, Any], registry: Registry[Any]) -> Operation:
    operation = item[method]
    roles = operation.get("x-roles")
    parameters = [resolved(parameter) for parameter in [*item.get("parameters", ()), *operation.get("parameters", ())]]
    pointer = f"{_DOCUMENT}#/paths/{_escaped(path)}/{method}/requestBody/content"
    bodies = {
        media_type: Draft202012WithDecimals({"$ref": f"{pointer}/{_escaped(media_type)}/schema"}, registry=registry)
        for media_type in operation.get("requestBody", {}).get("content", {})
    }
    return Operation(
        operation["operationId"],
        None if roles is None else frozenset(map(Role, roles)),
        frozenset(parameter["name"] for parameter in parameters if parameter["in"] == "query"),
        bodies,
    )


def resolved(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """Follow a reference within the contract."""
    while "$ref" in node:
        target: Any = document()
        for part in node["$ref"].removeprefix("#/").split("/"):
            target = target[part]
        node = target
    return node


def _escaped(part: str) -> str:
    """Write a key as a part of a JSON pointer within a URI."""
    return part.replace("~", "~0").replace("/", "~1").replace("{", "%7B").replace("}", "%7D").replace("+", "%2B")
