"""Requests that schemathesis makes of the contract, valid and not: no 5xx, and no answer that is not documented.

Each is sent as it was made, and once more with the ids of what exists, or most would end at 404. Always the same ones
are made. Known deviations: none.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tally.api import contract
from tests.conftest import fresh_database
from tests.integration.api_server import Client, exact, live_api
from tests.integration.sending import CREATE, event, volume

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
]
schema = schemathesis.openapi.from_dict(contract.document())
schema.config.generation.update(deterministic=True, with_security_parameters=False, database="none")
made_of_the_contract = settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@dataclass
class House:
    """A server, and what there is behind it."""

    client: Client
    known: dict[str, Any]
    session: requests.Session


@pytest.fixture(scope="module")
def live(server_url: str, closed_templates: tuple[str, str]) -> Iterator[House]:
    """A server over a closed month, with projects that are related and an event that was rejected."""
    reporting, metering = closed_templates
    with (
        fresh_database(server_url, reporting) as reporting_url,
        fresh_database(server_url, metering) as metering_url,
        live_api(reporting_url, metering_url) as client,
        requests.Session() as session,
    ):
        session.trust_env = False
        yield House(client, _furnish(client), session)


def _furnish(client: Client) -> dict[str, Any]:
    """Make what paths can name, and return it by the names of their parameters."""
    events = [volume("v-1", "01T00:00:00", CREATE, 1, resource_id="a/b"), event("bad", "01T00:00:00", "volume.vanish")]
    client.post("/api/v1/events", events)
    projects = [
        exact(client.post("/api/v1/projects", {"platform": "openstack", "cloud": "os-prod-eu1", "external_id": name}))
        for name in ("p-1", "p-2")
    ]
    relation = {"target_id": projects[1]["id"], "relation_type": "managed_by", "valid_from": "2026-06-01T00:00:00Z"}
    related = exact(client.post(f"/api/v1/projects/{projects[0]['id']}/relations", relation))
    (letter,) = client.items("/api/v1/rejected-events")
    return {
        "cloud": "os-prod-eu1",
        "platform": "openstack",
        "resource_type": "volume",
        "resource_id": "a/b",
        "id": projects[0]["id"],
        "relation_id": related["id"],
        "period": "2026-03",
        "rejected id": letter["id"],
    }


def _path_to_what_exists(case: schemathesis.Case, known: dict[str, Any]) -> dict[str, Any]:
    names = dict(known)
    if case.path.startswith("/api/v1/rejected-events"):
        names["id"] = known["rejected id"]
    return {name: names[name] for name in case.path_parameters or {}}


@schema.parametrize()
@made_of_the_contract
def test_every_answer_is_documented(case: schemathesis.Case, live: House) -> None:
    """Status, media type, headers and content, of whatever is asked."""
    case.call_and_validate(base_url=live.client.url, session=live.session, checks=CHECKS)
    if case.path_parameters:
        case.path_parameters = _path_to_what_exists(case, live.known)
        case.call_and_validate(base_url=live.client.url, session=live.session, checks=CHECKS)
