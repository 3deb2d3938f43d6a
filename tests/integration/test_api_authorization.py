"""Who may do what: one table of operation x own or foreign object x role, against a live server with real proofs.

The table is written from the requirement, not from the server; every operation of the contract has to stand in it.
"""

import csv
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
import requests

from tally.api import contract
from tally.api.auth.authenticator import caller_check
from tally.domain.principal import Role, Scope
from tally.services.credentials import create_credential
from tally.services.registry import define_type
from tally.settings import Settings
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.api_server import NOW, Client, exact, live_api
from tests.integration.closing import PERIOD, SMALL, instance
from tests.integration.fake_platform import Platform
from tests.issuer import AUDIENCE, running_issuer

# ingest and sync have credentials for os-prod-eu1; the consumer has the projects os-prod-eu1/p-1 and p-3. "own" and
# "foreign" say whether the request is about those, or about the cloud os-prod-eu2 and the project p-2; "-" that it is
# about no project. A foreign object is 404 by its address and 403 as a filter.
TABLE = """
operation             object   nobody  ingest  sync  operator  read_all  consumer
sendEvents            own         401     200   403       200       403       403
sendEvents            foreign     401     403   403       200       403       403
listEvents            own         401     403   403       200       200       200
listEvents            foreign     401     403   403       200       200       403
listResources         own         401     403   403       200       200       200
listResources         foreign     401     403   403       200       200       403
listResourceEvents    own         401     403   403       200       200       200
listResourceEvents    foreign     401     403   403       200       200       404
getLifecycle          own         401     403   403       200       200       200
getLifecycle          foreign     401     403   403       200       200       404
listResourceTypes     -           401     200   200       200       200       200
getResourceType       -           401     200   200       200       200       200
putResourceType       -           401     403   403       200       403       403
listRejectedEvents    -           401     403   403       200       200       403
getRejectedEvent      -           401     403   403       200       200       403
replayRejectedEvent   -           401     403   403       200       403       403
replayRejectedEvents  -           401     403   403       200       403       403
listClouds            -           401     403   403       200       200       403
putCloud              -           401     403   403       200       403       403
listProjects          own         401     403   403       200       200       200
listProjects          foreign     401     403   403       200       200       403
createProject         own         401     403   403       200       403       403
createProject         foreign     401     403   403       200       403       403
getProject            own         401     403   403       200       200       200
getProject            foreign     401     403   403       200       200       404
patchProject          own         401     403   403       200       403       403
patchProject          foreign     401     403   403       200       403       403
listRelations         own         401     403   403       200       200       200
listRelations         foreign     401     403   403       200       200       404
createRelation        own         401     403   403       200       403       403
createRelation        foreign     401     403   403       200       403       403
patchRelation         own         401     403   403       200       403       403
patchRelation         foreign     401     403   403       200       403       403
closeRelation         own         401     403   403       200       403       403
closeRelation         foreign     401     403   403       200       403       403
listRelated           own         401     403   403       200       200       200
listRelated           foreign     401     403   403       200       200       404
listBills             own         401     403   403       200       200       200
listBills             foreign     401     403   403       200       200       403
listKickbacks         -           401     403   403       200       200       403
getBillDocument       own         401     403   403       200       200       200
getBillDocument       foreign     401     403   403       200       200       403
getFocusDataset       own         401     403   403       200       200       200
getFocusDataset       foreign     401     403   403       200       200       403
listUsageRecords      own         401     403   403       200       200       200
listUsageRecords      foreign     401     403   403       200       200       403
listRatedRecords      own         401     403   403       200       200       200
listRatedRecords      foreign     401     403   403       200       200       403
getExplanation        own         401     403   403       200       200       200
getExplanation        foreign     401     403   403       200       200       404
listPeriods           -           401     403   403       200       200       200
getLate               -           401     403   403       404       404       403
getCompleteness       -           401     403   403       200       200       403
listWaivers           -           401     403   403       200       200       403
createWaiver          -           401     403   403       400       403       403
listRuns              -           401     403   403       200       200       403
listDeliveries        -           401     403   403       200       200       403
createQuote           own         401     403   403       200       200       200
createQuote           foreign     401     403   403       200       200       403
compareDraft          -           401     403   403       200       200       403
syncCloud             own         401     403   200       200       403       403
syncCloud             foreign     401     403   403       200       403       403
liveness              -           200     200   200       200       200       200
readiness             -           200     200   200       200       200       200
metrics               -           200     200   200       200       200       200
"""

CLOUD, OTHER_CLOUD = "os-prod-eu1", "os-prod-eu2"
OWN = frozenset({(CLOUD, "p-1"), (CLOUD, "p-3")})
CALLERS = ("nobody", *Role)
PROJECT, RELATIONS = "/api/v1/projects/{project}", "/api/v1/projects/{project}/relations"
RESOURCE = f"/api/v1/resources/{CLOUD}/instance/{{resource}}"
TYPE = "/api/v1/resource-types/openstack/cassette"
CASSETTE = {"lifecycle": {"cassette.create": "create", "cassette.delete": "delete"}}

_ROWS = [line.split() for line in TABLE.strip().splitlines()]
ROWS = [
    (operation, about, dict(zip(_ROWS[0][2:], map(int, cells), strict=True))) for operation, about, *cells in _ROWS[1:]
]


class Call(NamedTuple):
    """How an operation is called; the path and the values of body and query are templates of World.names."""

    method: str
    path: str
    body: Any = None
    query: dict[str, str] = {}  # noqa: RUF012 - never changed


BY_PROJECT = {"cloud": CLOUD, "project_id": "{name}"}
IN_MONTH = {"period": str(PERIOD)} | BY_PROJECT
QUOTE = {
    "period": str(PERIOD),
    "project": {"cloud": CLOUD, "project_id": "{name}"},
    "items": [{"platform": "openstack", "resource_type": "floating_ip"}],
}
RELATION = {"target_id": "{target}", "relation_type": "same_owner", "valid_from": "2026-05-01T00:00:00Z"}

CALLS = {
    "sendEvents": Call("POST", "/api/v1/events", "{event}"),
    "listEvents": Call("GET", "/api/v1/events", query=BY_PROJECT),
    "listResources": Call("GET", "/api/v1/resources", query=BY_PROJECT),
    "listResourceEvents": Call("GET", f"{RESOURCE}/events"),
    "getLifecycle": Call("GET", f"{RESOURCE}/lifecycle"),
    "listResourceTypes": Call("GET", "/api/v1/resource-types"),
    "getResourceType": Call("GET", TYPE),
    "putResourceType": Call("PUT", TYPE, CASSETTE),
    "listRejectedEvents": Call("GET", "/api/v1/rejected-events"),
    "getRejectedEvent": Call("GET", "/api/v1/rejected-events/{rejected}"),
    "replayRejectedEvent": Call("POST", "/api/v1/rejected-events/{rejected}/replay"),
    "replayRejectedEvents": Call("POST", "/api/v1/rejected-events/replay", {"reason": "unknown_resource_type"}),
    "listClouds": Call("GET", "/api/v1/clouds"),
    "putCloud": Call("PUT", f"/api/v1/clouds/{CLOUD}", {"platform": "openstack"}),
    "listProjects": Call("GET", "/api/v1/projects", query={"cloud": CLOUD, "external_id": "{name}"}),
    "createProject": Call(
        "POST", "/api/v1/projects", {"platform": "openstack", "cloud": CLOUD, "external_id": "{name}"}
    ),
    "getProject": Call("GET", PROJECT),
    "patchProject": Call("PATCH", PROJECT, {"name": None}),
    "listRelations": Call("GET", RELATIONS),
    "createRelation": Call("POST", RELATIONS, RELATION),
    "patchRelation": Call("PATCH", f"{RELATIONS}/{{relation}}", {"metadata": {}}),
    "closeRelation": Call("DELETE", f"{RELATIONS}/{{ended}}", query={"valid_to": "2026-05-02T00:00:00Z"}),
    "listRelated": Call("GET", f"{PROJECT}/related", query={"depth": "5"}),
    "listBills": Call("GET", "/api/v1/bills", query=IN_MONTH),
    "getBillDocument": Call("GET", "/api/v1/bills/document", query=IN_MONTH | {"cloud": CLOUD}),
    "getFocusDataset": Call("GET", "/api/v1/focus", query=IN_MONTH | {"cloud": CLOUD}),
    "listUsageRecords": Call("GET", "/api/v1/usage-records", query=IN_MONTH),
    "listRatedRecords": Call("GET", "/api/v1/rated-records", query=IN_MONTH),
    "getExplanation": Call("GET", "/api/v1/rated-records/{rated}/explanation", query={"period": str(PERIOD)}),
    "listKickbacks": Call("GET", "/api/v1/kickbacks", query={"period": str(PERIOD)}),
    "listPeriods": Call("GET", "/api/v1/periods"),
    "getLate": Call("GET", f"/api/v1/periods/{PERIOD}/late"),  # which is not finalized
    "getCompleteness": Call("GET", f"/api/v1/periods/{PERIOD}/completeness"),
    "listWaivers": Call("GET", f"/api/v1/periods/{PERIOD}/waivers"),
    "createWaiver": Call("POST", f"/api/v1/periods/{PERIOD}/waivers", {"kind": "cycle", "reason": "it never blocks"}),
    "listRuns": Call("GET", "/api/v1/runs"),
    "listDeliveries": Call("GET", "/api/v1/deliveries"),
    "createQuote": Call("POST", "/api/v1/quotes", QUOTE),
    "compareDraft": Call("POST", "/api/v1/what-if", {"period": str(PERIOD), "price_version": str(PERIOD)}),
    "syncCloud": Call("POST", "/internal/sync/{cloud}"),
    "liveness": Call("GET", "/healthz"),
    "readiness": Call("GET", "/readyz"),
    "metrics": Call("GET", "/metrics"),
}


@dataclass(frozen=True)
class World:
    """A server, the callers' proofs, and the names of what is own and what is foreign."""

    api: Client
    reporting_url: str
    proofs: dict[str, dict[str, str]]
    names: dict[str, dict[str, Any]]

    def call(self, operation: str, about: str, caller: str) -> requests.Response:
        """Send the request of an operation."""
        method, path, body, query = CALLS[operation]
        names = self.names["own" if about == "-" else about]
        return self.api.request(
            method,
            path.format_map(names),
            json_body=_filled(body, names),
            params=_filled(query, names),
            headers=self.proofs[caller],
        )


def _filled(template: Any, names: dict[str, Any]) -> Any:
    if isinstance(template, dict):
        return {key: _filled(value, names) for key, value in template.items()}
    if isinstance(template, str) and template.startswith("{"):
        return names[template.strip("{}")]
    return template


@pytest.fixture(scope="module")
def world(server_url: str, closed_templates: tuple[str, str]) -> Iterator[World]:
    """A closed month of p-1 and p-2, projects with relations, a resource that changed hands, and a rejected event."""
    with ExitStack() as stack:
        reporting_url, metering_url = (
            stack.enter_context(fresh_database(server_url, template)) for template in closed_templates
        )
        issuer = stack.enter_context(running_issuer())
        settings = Settings(home=Path("/nowhere"), oidc_issuer=issuer.url, oidc_audience=AUDIENCE)
        check = caller_check(settings, lambda: NOW)
        adapters = {"openstack": lambda _: Platform({})}
        how = {"authenticator": check, "adapters": adapters, "provider_name": "Example Cloud"}
        api = stack.enter_context(live_api(reporting_url, metering_url, **how))
        with connected(reporting_url) as reporting:
            proofs = credentials(reporting)
        listed = [f"{cloud}/{project}" for cloud, project in sorted(OWN)]
        for name, claims in {
            "read_all": {"tally_role": "read_all"},
            "consumer": {"tally_projects": listed},
            "guest": {},
        }.items():
            proofs[name] = {"Authorization": f"Bearer {issuer.token(exp=issuer.claims()['iat'] + 36_000, **claims)}"}
        names = furnish(Client(api.url, proofs["operator"]), reporting_url)
        yield World(api, reporting_url, proofs, names)


def credentials(reporting: Connection) -> dict[str, dict[str, str]]:
    """Proofs of the callers that have credentials, and of nobody."""
    proofs: dict[str, dict[str, str]] = {"nobody": {}}
    scope = Scope("openstack", CLOUD)
    for role in (Role.INGEST, Role.SYNC, Role.OPERATOR):
        bound = None if role is Role.OPERATOR else scope
        made = create_credential(reporting, role.value, role, bound, NOW + timedelta(days=1), "test", NOW)
        proofs[role.value] = {"Authorization": f"Bearer {made.token}"}
    return proofs


def furnish(operator: Client, reporting_url: str) -> dict[str, dict[str, Any]]:
    """Make what the table is about, so that each of its requests can be repeated."""
    moved = [
        instance("e-7", "03-06T00:00:00", "create.end", "i-3", size=SMALL, project_id="p-2"),
        instance("e-8", "03-07T00:00:00", "finish_resize.end", "i-3", project_id="p-1"),
        instance("e-9", "03-09T00:00:00", "finish_resize.end", "i-3", project_id="p-2"),
        instance("e-10", "03-12T00:00:00", "delete.end", "i-3", project_id="p-2"),
    ]
    own = instance("e-6", "03-08T00:00:00", "create.end", "i-4", size=SMALL)
    foreign = {**own, "cloud": OTHER_CLOUD, "project_id": "p-2"}
    answer = operator.post("/api/v1/events", [*moved, own, foreign, {**own, "event_id": "x", "resource_type": "ghost"}])
    assert [result["status"] for result in answer.json()["results"]] == ["accepted"] * 6 + ["rejected"]
    with connected(reporting_url) as reporting:
        define_type(reporting, "openstack", "cassette", CASSETTE, "test")
        rejected = reporting.execute("select id from reporting.rejected_events").fetchall()[0][0]

    ids = {}
    for name in ("p-1", "p-2", "p-3", "p-4"):
        body = {"platform": "openstack", "cloud": CLOUD, "external_id": name}
        ids[name] = operator.post("/api/v1/projects", body).json()["id"]

    def relate(source: str, target: str, relation_type: str) -> str:
        begin = {"valid_from": "2026-05-01T00:00:00Z"}
        body = {"target_id": ids[target], "relation_type": relation_type} | begin
        answer = operator.post(f"/api/v1/projects/{ids[source]}/relations", body)
        assert answer.status_code == 201, answer.text
        return str(answer.json()["id"])

    # Each of p-1 and p-2 with its own neighbour, and with each other: such a relation leads to what is foreign.
    relate("p-1", "p-2", "managed_by")
    relate("p-2", "p-1", "image_source")
    listed = operator.items("/api/v1/rated-records", period=str(PERIOD))
    rated = {row["project_id"]: row["id"] for row in listed}
    pairs = {"own": ("p-1", "p-3"), "foreign": ("p-2", "p-4")}
    return {
        about: {
            "name": source,
            "project": ids[source],
            "target": ids[target],
            "relation": relate(source, target, "same_owner"),
            "ended": relate(source, target, "image_source"),
            "resource": {"own": "i-1", "foreign": "i-2"}[about],
            "rated": rated[source],
            "event": {"own": own, "foreign": foreign}[about],
            "cloud": {"own": CLOUD, "foreign": OTHER_CLOUD}[about],
            "rejected": rejected,
        }
        for about, (source, target) in pairs.items()
    }


def test_every_operation_of_the_contract_stands_in_the_table() -> None:
    """A new one fails here until somebody has said who may call it."""
    assert {operation for operation, _, _ in ROWS} == set(contract.operations()) == set(CALLS)


@pytest.mark.parametrize("operation", CALLS)
def test_the_contract_names_the_roles_of_the_table(operation: str) -> None:
    """x-roles is what the server enforces: 401 or 403 for all others, whatever the request is about."""
    cells = [cells for name, _, cells in ROWS if name == operation]
    let_in = {role for role in Role if any(row[role] != 403 for row in cells)}
    assert (contract.operations()[operation].roles or set(Role)) == let_in


@pytest.mark.parametrize(("operation", "about", "expected"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_the_table_holds(world: World, operation: str, about: str, expected: dict[str, int]) -> None:
    """For each caller."""
    answers = {caller: world.call(operation, about, caller) for caller in CALLERS}
    assert {caller: answer.status_code for caller, answer in answers.items()} == expected, {
        caller: answer.text[:200] for caller, answer in answers.items() if answer.status_code != expected[caller]
    }


def test_what_is_refused_changes_nothing(world: World) -> None:
    """No row of any table; the audit log tells of the events that were refused because of their cloud."""
    with connected(world.reporting_url) as reporting:
        before, last = content(reporting), audited(reporting, after=0)[-1][0]
        for operation, about, expected in ROWS:
            for caller in CALLERS:
                if expected[caller] >= 400:
                    world.call(operation, about, caller)
        assert content(reporting) == before
        told = audited(reporting, after=last)
    assert [action for _, _, action, _ in told] == ["events.ingest", "events.refuse"]
    assert [detail["installations"] for _, _, action, detail in told if action == "events.refuse"] == [
        {f"openstack/{OTHER_CLOUD}": 1}
    ]
    assert {actor for _, actor, _, _ in told} == {"token:ingest"}


def audited(reporting: Connection, after: int) -> list[tuple[Any, ...]]:
    """The audit log: number, actor, action and detail."""
    statement = "select id, actor, action, detail from reporting.audit_log where id > %s order by id"
    return reporting.execute(statement, [after]).fetchall()


def content(reporting: Connection) -> dict[str, str]:
    """A fingerprint of every table but the audit log."""
    listed = "select tablename from pg_tables where schemaname = 'reporting' and tablename <> 'audit_log'"
    tables = [row[0] for row in reporting.execute(listed).fetchall()]
    hashed = "select md5(coalesce(string_agg(t::text, '|' order by t::text), '')) from reporting.{} as t"
    return {name: reporting.execute(hashed.format(name).encode()).fetchall()[0][0] for name in tables}


def test_a_foreign_object_looks_like_none(world: World) -> None:
    """What a consumer may not see cannot be told from what does not exist, but for its name in the text."""
    for operation, about, expected in ROWS:
        if about != "foreign" or expected["consumer"] != 404:
            continue
        foreign = world.call(operation, about, "consumer")
        nothing = {"project": str(uuid4()), "resource": "i-none", "rated": str(uuid4())}
        absent = World(world.api, "", world.proofs, {"foreign": nothing}).call(operation, about, "consumer")
        assert {**foreign.json(), "detail": ""} == {**absent.json(), "detail": ""}
        known = world.names["foreign"]
        assert shape(foreign, *(known[name] for name in nothing)) == shape(absent, *nothing.values())


def shape(answer: requests.Response, *names: str) -> str:
    """The text of a refusal without the names of what it refuses."""
    text = str(answer.json()["detail"])
    for name in names:
        text = text.replace(name, "<name>")
    return text


def keys_of(item: dict[str, Any], projects: dict[str, tuple[str, str]]) -> set[tuple[str, str]]:
    """The projects that an item of any list is about."""
    if "external_id" in item:
        return {(item["cloud"], item["external_id"])}
    if "source_id" in item:
        return {projects[item["source_id"]], projects[item["target_id"]]}
    if "path" in item:
        return keys_of(item["project"], projects).union(*(keys_of(step, projects) for step in item["path"]))
    return {(item["cloud"], item["project_id"])}


LISTS: dict[str, Callable[[dict[str, Any]], tuple[str, dict[str, str]]]] = {
    "listEvents": lambda _: ("/api/v1/events", {}),
    "listResources": lambda _: ("/api/v1/resources", {}),
    "listResourceEvents": lambda _: (f"/api/v1/resources/{CLOUD}/instance/i-3/events", {}),
    "listProjects": lambda _: ("/api/v1/projects", {}),
    "listRelations": lambda own: (RELATIONS.format_map(own), {}),
    "listBills": lambda _: ("/api/v1/bills", {"period": str(PERIOD)}),
    "listUsageRecords": lambda _: ("/api/v1/usage-records", {"period": str(PERIOD)}),
    "listRatedRecords": lambda _: ("/api/v1/rated-records", {"period": str(PERIOD)}),
}


@pytest.mark.parametrize("operation", LISTS)
def test_a_list_holds_what_its_caller_may_see(world: World, operation: str) -> None:
    """Page by page: all of it for who reads all, of a consumer its own, nothing for who has no project."""
    path, query = LISTS[operation](world.names["own"])
    everything = {caller: Client(world.api.url, world.proofs[caller]) for caller in ("read_all", "consumer", "guest")}
    projects = {
        row["id"]: (row["cloud"], row["external_id"]) for row in everything["read_all"].items("/api/v1/projects")
    }

    def seen(caller: str) -> set[tuple[str, str]]:
        items = everything[caller].items(path, **query, limit=1)
        return set().union(*(keys_of(item, projects) for item in items))

    assert seen("read_all") - OWN
    assert seen("read_all") & OWN == seen("consumer")
    if operation in {"listResourceEvents", "listRelations"}:
        assert everything["guest"].get(path).status_code == 404
    else:
        assert seen("guest") == set()


def test_relations_do_not_lead_to_foreign_projects(world: World) -> None:
    """Neither as the end of a path nor as a step."""
    path = f"{PROJECT}/related".format_map(world.names["own"])

    def found(caller: str) -> set[str]:
        answer = Client(world.api.url, world.proofs[caller]).get(path, depth="20")
        return {item["project"]["external_id"] for item in answer.json()["items"]}

    assert found("read_all") == {"p-2", "p-3", "p-4"}
    assert found("consumer") == {"p-3"}


def test_a_lifecycle_shows_the_time_in_own_projects(world: World) -> None:
    """Of a resource that changed hands twice, a consumer sees the part that it pays for, and no more of the rest."""
    path = f"/api/v1/resources/{CLOUD}/instance/i-3/lifecycle"

    def seen(caller: str) -> set[str]:
        answer = exact(Client(world.api.url, world.proofs[caller]).get(path))
        return {interval["project_id"] for life in answer["lifetimes"] for interval in life["intervals"]}

    assert seen("read_all") == {"p-1", "p-2"}
    assert seen("consumer") == {"p-1"}
    text = Client(world.api.url, world.proofs["consumer"]).get(path).text
    for foreign in ("p-2", "2026-03-06", "2026-03-12", "e-7", "e-10"):
        assert foreign not in text


def test_a_project_of_the_same_id_in_another_cloud_is_foreign(world: World) -> None:
    """A project is its cloud and its id."""
    consumer = Client(world.api.url, world.proofs["consumer"])
    for path in ("/api/v1/events", "/api/v1/resources"):
        assert consumer.get(path, cloud=OTHER_CLOUD, project_id="p-1").status_code == 403


def test_a_sync_credential_cannot_say_that_deletions_are_right(world: World) -> None:
    """A job that always accepts would be no guard."""
    for caller, status in {"sync": 403, "operator": 200}.items():
        client = Client(world.api.url, world.proofs[caller])
        assert client.post(f"/internal/sync/{CLOUD}", accept_deletions="true").status_code == status


def test_a_consumer_gets_the_charges_of_its_own_bills_alone(world: World) -> None:
    """Without a filter; one that has no project gets none."""
    accounts = {}
    for caller in ("read_all", "consumer", "guest"):
        answer = Client(world.api.url, world.proofs[caller]).get("/api/v1/focus", period=str(PERIOD))
        assert answer.status_code == 200, answer.text
        accounts[caller] = {line["BillingAccountId"] for line in csv.DictReader(answer.text.splitlines())}
    assert accounts == {"read_all": {f"{CLOUD}/p-1", f"{CLOUD}/p-2"}, "consumer": {f"{CLOUD}/p-1"}, "guest": set()}
