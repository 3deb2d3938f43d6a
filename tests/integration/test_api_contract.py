"""The server is what its contract says: the same addresses, parameters and limits, and only documented answers."""

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
from fastapi.openapi.utils import get_openapi

from tally.api import contract
from tally.api.app import create_app
from tally.domain.principal import Role

# What the contract may say of a parameter beyond its name; each is compared.
LIMITS = ("type", "format", "enum", "minimum", "maximum", "minLength", "maxLength", "pattern", "default")


@pytest.fixture(scope="module")
def served() -> dict[str, Any]:
    """What the framework finds in the routes of the server."""
    app = create_app(lambda: nullcontext(None))  # type: ignore[arg-type,return-value]
    return get_openapi(title="served", version="1", routes=app.routes)


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any], list[dict[str, Any]]]]:
    """(path, method, operation, its parameters) of a document."""
    for path, item in document["paths"].items():
        for method in contract.METHODS:
            if method in item:
                shared = item.get("parameters", [])
                yield path.replace(":path}", "}"), method, item[method], [*shared, *item[method].get("parameters", [])]


def limits(parameter: dict[str, Any]) -> dict[str, Any]:
    """The limits of a parameter; null, which a query cannot hold, left out."""
    schema = dict(contract.resolved(parameter["schema"]))
    for choice in schema.get("anyOf", []):
        if choice.get("type") != "null":
            schema |= choice
    return {name: schema[name] for name in LIMITS if schema.get(name) is not None}


def test_server_and_contract_have_the_same_operations(served: dict[str, Any]) -> None:
    """Each address and method under the same operation id, nothing more and nothing less."""
    assert {(path, method, op["operationId"]) for path, method, op, _ in operations(served)} == {
        (path, method, op["operationId"]) for path, method, op, _ in operations(contract.document())
    }


def test_server_and_contract_have_the_same_parameters(served: dict[str, Any]) -> None:
    """The same names in the same places, required or not, with the same limits and defaults."""

    def described(document: dict[str, Any]) -> dict[tuple[str, str, str, str], tuple[bool, dict[str, Any]]]:
        return {
            (op["operationId"], method, parameter["in"], parameter["name"]): (
                parameter.get("required", False),
                limits(parameter),
            )
            for _, method, op, parameters in operations(document)
            for parameter in map(dict, map(contract.resolved, parameters))
        }

    assert described(served) == described(contract.document())


def test_every_operation_names_its_roles_or_is_open_to_everybody() -> None:
    """Only health and metrics ask for no identity; every role of the contract exists."""
    for _, _, operation, _ in operations(contract.document()):
        if operation.get("security") == []:
            assert operation["operationId"] in {"liveness", "readiness", "metrics"}
            assert "x-roles" not in operation
        else:
            assert {Role(role) for role in operation["x-roles"]}


def test_every_operation_documents_how_it_fails() -> None:
    """Whoever asks for an identity may answer 401 and 403; whoever reads parameters or a body 400."""
    for _, _, operation, _ in operations(contract.document()):
        if operation.get("security") != []:
            assert {"400", "401", "403", "503"} <= operation["responses"].keys(), operation["operationId"]
        if "requestBody" in operation:
            assert {"413", "415"} <= operation["responses"].keys(), operation["operationId"]
