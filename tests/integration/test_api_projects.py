"""Clouds, projects and relations over HTTP: what each answers, to whom, and that sending again is safe."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from starlette.datastructures import Headers

from tally.api.auth.caller import Connect
from tally.domain.period import BillingPeriod
from tally.domain.principal import Principal, Role
from tally.store.database import Connection
from tests.integration.api_server import Client, exact, live_api
from tests.integration.registering import TENANT
from tests.integration.test_late import finalized_run

CLOUDS, PROJECTS = "/api/v1/clouds", "/api/v1/projects"
OWN = frozenset({("os", "a"), ("os", "b"), ("os", "d")})


class ByName:
    """Takes the caller for who it says it is."""

    def authenticate(self, headers: Headers, peer: str, connect: Connect) -> Principal | None:  # noqa: ARG002
        """Read the role from the header."""
        role = Role(headers.get("Authorization", ""))
        return Principal(f"test:{role}", role, projects=OWN if role is Role.CONSUMER else None)


@pytest.fixture
def operator(reporting_url: str, metering_url: str) -> Iterator[Client]:
    """An operator of a live API that knows its callers."""
    with live_api(reporting_url, metering_url, authenticator=ByName()) as client:
        client.headers["Authorization"] = Role.OPERATOR
        yield client


@pytest.fixture
def consumer(operator: Client) -> Client:
    """A consumer that sees three projects of the same API."""
    return Client(operator.url, {"Authorization": Role.CONSUMER})


@pytest.fixture
def ids(operator: Client) -> dict[str, str]:
    """Five projects by their ids; the first three and the fifth belong to the cloud "os"."""
    return {name: create(operator, name, "other" if name == "x" else "os") for name in ("a", "b", "c", "x", "d")}


def create(client: Client, external_id: str, cloud: str = "os", **fields: Any) -> str:
    """Register a project; returns its id."""
    body = {"platform": "openstack", "cloud": cloud, "external_id": external_id} | fields
    answer = client.post(PROJECTS, body)
    assert answer.status_code == 201
    return str(answer.json()["id"])


def relate(client: Client, source: str, target: str, **fields: Any) -> Any:
    """Relate two projects from January on; returns the relation."""
    body = {"target_id": target, "relation_type": TENANT, "valid_from": "2026-01-01T00:00:00Z"} | fields
    answer = client.post(f"{PROJECTS}/{source}/relations", body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(answer: Any) -> tuple[int, str]:
    """The status and the kind of a problem."""
    return answer.status_code, answer.json()["type"].removeprefix("urn:tally:problem:")


class TestClouds:
    """PUT /api/v1/clouds/{cloud}."""

    def test_registering_again_is_safe(self, operator: Client) -> None:
        """201 for what is new, 200 for the same, 409 for another platform."""
        first, again = (operator.put(f"{CLOUDS}/os-prod-eu1", {"platform": "openstack"}) for _ in range(2))
        assert (first.status_code, again.status_code, first.json()) == (201, 200, again.json())
        other = operator.put(f"{CLOUDS}/os-prod-eu1", {"platform": "hetzner"})
        assert problem(other) == (409, "refused")
        assert other.json()["reasons"] == ["it belongs to the platform openstack, not to hetzner"]

    @pytest.mark.parametrize("name", ["a%2Fb", "a%0Ab", "a%0A", "%C2%A0", "x" * 513])
    def test_a_name_can_be_read_and_written_in_an_address(self, operator: Client, name: str) -> None:
        """A slash arrives decoded, and is refused as such."""
        assert problem(operator.put(f"{CLOUDS}/{name}", {"platform": "openstack"})) == (400, "invalid-request")
        assert operator.items(CLOUDS) == []

    def test_clouds_are_listed_page_by_page(self, operator: Client) -> None:
        """By name, of all platforms or of one."""
        for platform, cloud in (("openstack", "c"), ("hetzner", "b"), ("openstack", "a")):
            operator.put(f"{CLOUDS}/{cloud}", {"platform": platform})
        assert [row["cloud"] for row in operator.items(CLOUDS, limit=1)] == ["a", "b", "c"]
        assert [row["cloud"] for row in operator.items(CLOUDS, platform="openstack", limit=1)] == ["a", "c"]


class TestProjects:
    """Registering, reading and changing projects."""

    def test_registering_again_is_safe(self, operator: Client, reporting: Connection) -> None:
        """201 for what is new, 200 for the same, 409 for what is taken; numbers stay as they were written."""
        body = b'{"platform":"openstack","cloud":"os","external_id":"p/1","name":"One","metadata":{"rate":0.10}}'
        first, again = (operator.request("POST", PROJECTS, data=body) for _ in range(2))
        assert (first.status_code, again.status_code, first.json()) == (201, 200, again.json())
        assert b'"rate":0.10' in first.content
        taken = operator.request("POST", PROJECTS, data=body.replace(b"One", b"Two"))
        assert problem(taken) == (409, "refused")
        audited = reporting.execute("select actor, action from reporting.audit_log where action like 'project.%'")
        assert audited.fetchall() == [("test:operator", "project.create")]

    def test_the_cloud_may_be_left_out(self, operator: Client) -> None:
        """Where its platform has exactly one; else the answer names what there is."""
        body = {"platform": "openstack", "external_id": "p"}
        assert "has no cloud yet" in operator.post(PROJECTS, body).json()["detail"]
        operator.put(f"{CLOUDS}/os-1", {"platform": "openstack"})
        assert operator.post(PROJECTS, body).json()["cloud"] == "os-1"
        operator.put(f"{CLOUDS}/os-2", {"platform": "openstack"})
        ambiguous = operator.post(PROJECTS, body)
        assert problem(ambiguous) == (400, "invalid-request")
        assert "one of os-1, os-2" in ambiguous.json()["detail"]

    @pytest.mark.parametrize(
        "body",
        [
            {},
            {"platform": "openstack"},
            {"platform": "openstak", "cloud": "os", "external_id": "p"},
            {"platform": "openstack", "cloud": "os", "external_id": ""},
            {"platform": "openstack", "cloud": "os", "external_id": "é" * 300},
            {"platform": "openstack", "cloud": "os", "external_id": "p", "name": ""},
            {"platform": "openstack", "cloud": "os", "external_id": "p", "metadata": []},
            {"platform": "openstack", "cloud": "os", "external_id": "p", "metadata": {"a": "\0"}},
            {"platform": "openstack", "cloud": "os", "external_id": "p", "colour": "red"},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, operator: Client, body: dict[str, Any]) -> None:
        """And nothing of it is stored."""
        assert problem(operator.post(PROJECTS, body)) == (400, "invalid-request")
        assert operator.items(PROJECTS) == []

    def test_a_project_is_patched_by_merge(self, operator: Client) -> None:
        """RFC 7396; the answer is what is stored."""
        project = create(operator, "p", name="One", metadata={"a": 1, "b": {"c": 2}})
        patched = operator.patch(f"{PROJECTS}/{project}", {"name": None, "metadata": {"a": None, "b": {"d": 3}}})
        assert (patched.json()["name"], patched.json()["metadata"]) == (None, {"b": {"c": 2, "d": 3}})
        assert operator.get(f"{PROJECTS}/{project}").json() == patched.json()
        assert problem(operator.patch(f"{PROJECTS}/{project}", {})) == (400, "invalid-request")
        assert problem(operator.patch(f"{PROJECTS}/{uuid4()}", {"name": "x"})) == (404, "not-found")

    @pytest.mark.usefixtures("ids")
    def test_projects_are_listed_page_by_page(self, operator: Client) -> None:
        """By cloud and id, all or by filters; a misspelt filter is refused."""
        assert [row["external_id"] for row in operator.items(PROJECTS, limit=2)] == ["a", "b", "c", "d", "x"]
        assert [row["external_id"] for row in operator.items(PROJECTS, cloud="other")] == ["x"]
        assert [row["cloud"] for row in operator.items(PROJECTS, external_id="b")] == ["os"]
        assert operator.items(PROJECTS, platform="hetzner") == []
        assert problem(operator.get(PROJECTS, project="a")) == (400, "invalid-request")

    def test_an_id_is_a_uuid(self, operator: Client) -> None:
        """Anything else is a fault of the request."""
        assert problem(operator.get(f"{PROJECTS}/team-alpha")) == (400, "invalid-request")


class TestRelations:
    """Relating projects, changing and closing relations."""

    def test_relating_again_is_safe(self, operator: Client, ids: dict[str, str]) -> None:
        """With a beginning or without one."""
        for fields in ({"valid_from": "2026-01-01T01:00:00+01:00", "target_id": ids["b"]}, {"target_id": ids["c"]}):
            body = {"relation_type": TENANT, "metadata": {"shoot_name": "abc"}} | fields
            first, again = (operator.post(f"{PROJECTS}/{ids['a']}/relations", body) for _ in range(2))
            assert (first.status_code, again.status_code, first.json()) == (201, 200, again.json())
        assert first.json()["valid_from"] == "2026-06-01T00:00:00Z"
        overlap = operator.post(f"{PROJECTS}/{ids['a']}/relations", body | {"metadata": {}})
        assert problem(overlap) == (409, "refused")

    def test_a_cycle_is_refused_with_its_path(self, operator: Client, ids: dict[str, str]) -> None:
        """409; the reason names the projects."""
        relate(operator, ids["a"], ids["b"])
        relate(operator, ids["b"], ids["x"])
        refused = operator.post(f"{PROJECTS}/{ids['x']}/relations", {"target_id": ids["a"], "relation_type": TENANT})
        assert problem(refused) == (409, "refused")
        assert "other/x -> os/a -> os/b -> other/x" in refused.json()["reasons"][0]

    @pytest.mark.parametrize(
        "fields",
        [
            {"target_id": "team-alpha"},
            {"relation_type": "cousin_of"},
            {"valid_from": "2026-03-01"},
            {"valid_from": None},
            {"valid_to": "2025-01-01T00:00:00Z"},
            {"metadata": None},
            {"reason": ""},
        ],
    )
    def test_what_makes_no_sense_is_refused(self, operator: Client, ids: dict[str, str], fields: Any) -> None:
        """And nothing of it is stored."""
        body = {"target_id": ids["b"], "relation_type": TENANT, "valid_from": "2026-01-01T00:00:00Z"} | fields
        assert problem(operator.post(f"{PROJECTS}/{ids['a']}/relations", body)) == (400, "invalid-request")
        assert operator.items(f"{PROJECTS}/{ids['a']}/relations") == []

    def test_a_project_that_does_not_exist_is_related_to_nothing(self, operator: Client, ids: dict[str, str]) -> None:
        """Neither as source nor as target."""
        body = {"target_id": str(uuid4()), "relation_type": TENANT}
        assert problem(operator.post(f"{PROJECTS}/{ids['a']}/relations", body)) == (404, "not-found")
        body["target_id"] = ids["a"]
        assert problem(operator.post(f"{PROJECTS}/{uuid4()}/relations", body)) == (404, "not-found")
        assert problem(operator.get(f"{PROJECTS}/{uuid4()}/relations")) == (404, "not-found")

    def test_a_relation_is_patched_and_opened_again(self, operator: Client, ids: dict[str, str]) -> None:
        """Under either of its projects, not under another one."""
        relation = relate(operator, ids["a"], ids["b"], metadata={"a": 1})
        path = f"{PROJECTS}/{ids['a']}/relations/{relation['id']}"
        patched = operator.patch(path, {"metadata": {"b": 2}, "valid_to": "2026-09-01T00:00:00Z"}).json()
        assert (patched["version"], patched["metadata"]) == (2, {"a": 1, "b": 2})
        assert patched["valid_to"] == "2026-09-01T00:00:00Z"
        opened = operator.patch(f"{PROJECTS}/{ids['b']}/relations/{relation['id']}", {"valid_to": None}).json()
        assert (opened["version"], opened["valid_to"]) == (3, None)
        assert operator.patch(path, {"valid_to": None}).json() == opened
        foreign = operator.patch(f"{PROJECTS}/{ids['c']}/relations/{relation['id']}", {"valid_to": None})
        assert problem(foreign) == (404, "not-found")
        for body in ({}, {"valid_from": None}, {"valid_to": "2025-01-01T00:00:00Z"}, {"valid_to": "soon"}):
            assert problem(operator.patch(path, body)) == (400, "invalid-request")

    def test_a_relation_is_closed_and_kept(self, operator: Client, ids: dict[str, str]) -> None:
        """Now, or at an instant; again is nothing."""
        relation = relate(operator, ids["a"], ids["b"])
        path = f"{PROJECTS}/{ids['a']}/relations/{relation['id']}"
        closed = operator.delete(path)
        assert (closed.status_code, closed.json()["valid_to"]) == (200, "2026-06-01T00:00:00Z")
        assert operator.delete(path).json() == closed.json()
        assert operator.items(f"{PROJECTS}/{ids['a']}/relations") == [closed.json()]
        earlier = operator.delete(path, valid_to="2026-05-01T02:00:00+02:00")
        assert earlier.json()["valid_to"] == "2026-05-01T00:00:00Z"
        assert problem(operator.delete(path, valid_to="soon")) == (400, "invalid-request")
        assert problem(operator.delete(path, valid_to="2025-01-01T00:00:00Z")) == (400, "invalid-request")
        missing = f"{PROJECTS}/{ids['a']}/relations/{uuid4()}"
        assert problem(operator.delete(missing)) == (404, "not-found")

    def test_relations_are_listed_by_direction_and_type(self, operator: Client, ids: dict[str, str]) -> None:
        """Page by page."""
        out = relate(operator, ids["a"], ids["b"])
        owner = relate(operator, ids["a"], ids["c"], relation_type="same_owner", valid_from="2026-02-01T00:00:00Z")
        into = relate(operator, ids["c"], ids["a"], relation_type="member_of", valid_from="2026-03-01T00:00:00Z")
        path = f"{PROJECTS}/{ids['a']}/relations"
        assert operator.items(path, limit=1) == [out, owner, into]
        assert operator.items(path, direction="outgoing", limit=1) == [out, owner]
        assert operator.items(path, direction="incoming") == [into]
        assert operator.items(path, relation_type="same_owner") == [owner]
        for query in ({"direction": "sideways"}, {"relation_type": "cousin_of"}, {"cursor": "e30="}):
            assert problem(operator.get(path, **query)) == (400, "invalid-request")


class TestFinalizedMonths:
    """What touches a finalized month needs a reason, and is late for it."""

    @pytest.fixture(autouse=True)
    def march(self, reporting: Connection, metering: Connection) -> None:
        """March is finalized before anything is said."""
        finalized_run(reporting, metering, BillingPeriod.parse("2026-03"))

    def test_a_new_relation(self, operator: Client, ids: dict[str, str]) -> None:
        """Refused without a reason; with one, the answer names the month."""
        body = {"target_id": ids["b"], "relation_type": TENANT, "valid_from": "2026-03-31T00:00:00Z"}
        refused = operator.post(f"{PROJECTS}/{ids['a']}/relations", body)
        assert problem(refused) == (409, "refused")
        assert "2026-03, which is finalized; give a reason" in refused.json()["reasons"][0]
        written = operator.post(f"{PROJECTS}/{ids['a']}/relations", body | {"reason": "forgotten"})
        assert (written.status_code, written.json()["late_for"]) == (201, ["2026-03"])
        [listed] = operator.items(f"{PROJECTS}/{ids['a']}/relations")
        assert "late_for" not in listed

    def test_a_patch_and_a_close(self, operator: Client, reporting: Connection, ids: dict[str, str]) -> None:
        """The reason is in the body of a patch and in the query of a close; it is audited."""
        relation = relate(operator, ids["a"], ids["b"], valid_from="2026-04-01T00:00:00Z")
        path = f"{PROJECTS}/{ids['a']}/relations/{relation['id']}"
        patch = {"valid_from": "2026-03-15T00:00:00Z"}
        assert problem(operator.patch(path, patch)) == (409, "refused")
        assert operator.patch(path, patch | {"reason": "it began earlier"}).json()["late_for"] == ["2026-03"]
        end = {"valid_to": "2026-03-15T00:00:00Z"}
        assert problem(operator.delete(path, **end)) == (409, "refused")
        assert operator.delete(path, **end, reason="it never was").json()["late_for"] == ["2026-03"]
        reasons = reporting.execute(
            "select actor, detail ->> 'reason' from reporting.audit_log where action like 'relation.%' order by id"
        ).fetchall()
        assert reasons == [
            ("test:operator", None), ("test:operator", "it began earlier"), ("test:operator", "it never was"),
        ]


class TestRelated:
    """GET /api/v1/projects/{id}/related."""

    def test_projects_come_once_by_the_shortest_path(self, operator: Client, ids: dict[str, str]) -> None:
        """As deep as asked, of one type or all, at an instant; cycles end."""
        first = relate(operator, ids["a"], ids["b"])
        second = relate(operator, ids["b"], ids["x"], valid_from="2026-03-01T00:00:00Z")
        relate(operator, ids["x"], ids["a"], relation_type="same_owner")
        path = f"{PROJECTS}/{ids['a']}/related"
        [nearest] = operator.get(path).json()["items"]
        assert (nearest["project"]["id"], nearest["depth"], nearest["path"]) == (ids["b"], 1, [first])
        items = operator.get(path, depth=20).json()["items"]
        assert [(item["project"]["external_id"], item["path"]) for item in items] == [
            ("b", [first]), ("x", [first, second]),
        ]
        assert len(operator.get(path, depth=20, at="2026-02-01T00:00:00Z").json()["items"]) == 1
        assert operator.get(path, relation_type="same_owner").json()["items"] == []
        for query in ({"depth": 0}, {"depth": 21}, {"at": "2026-03-01"}, {"relation_type": "cousin_of"}):
            assert problem(operator.get(path, **query)) == (400, "invalid-request")
        assert problem(operator.get(f"{PROJECTS}/{uuid4()}/related")) == (404, "not-found")


class TestConsumers:
    """A consumer sees its projects: here os/a, os/b and os/d, not os/c and not other/x."""

    def test_lists_hold_only_its_projects(self, consumer: Client, ids: dict[str, str]) -> None:
        """A filter by a foreign project is forbidden."""
        assert [row["id"] for row in consumer.items(PROJECTS, limit=1)] == [ids["a"], ids["b"], ids["d"]]
        assert consumer.items(PROJECTS, cloud="other") == []
        assert [row["id"] for row in consumer.items(PROJECTS, external_id="a", cloud="os")] == [ids["a"]]
        for query in ({"external_id": "c"}, {"external_id": "a", "cloud": "other"}):
            assert problem(consumer.get(PROJECTS, **query)) == (403, "forbidden")

    def test_foreign_projects_do_not_exist(self, consumer: Client, ids: dict[str, str]) -> None:
        """By their ids, with their relations and with what they lead to."""
        assert consumer.get(f"{PROJECTS}/{ids['a']}").json()["external_id"] == "a"
        for foreign in (ids["c"], ids["x"]):
            for path in (foreign, f"{foreign}/relations", f"{foreign}/related"):
                assert problem(consumer.get(f"{PROJECTS}/{path}")) == (404, "not-found")

    def test_relations_to_foreign_projects_do_not_exist(
        self, operator: Client, consumer: Client, ids: dict[str, str]
    ) -> None:
        """Nor does what lies behind them."""
        own = relate(operator, ids["a"], ids["b"])
        relate(operator, ids["a"], ids["c"])
        relate(operator, ids["c"], ids["d"])
        assert consumer.items(f"{PROJECTS}/{ids['a']}/relations") == [own]
        items = consumer.get(f"{PROJECTS}/{ids['a']}/related", depth=20).json()["items"]
        assert [item["project"]["id"] for item in items] == [ids["b"]]
        assert len(operator.get(f"{PROJECTS}/{ids['a']}/related", depth=20).json()["items"]) == 3

    def test_it_changes_nothing(self, operator: Client, consumer: Client, ids: dict[str, str]) -> None:
        """Not even its own projects."""
        relation = relate(operator, ids["a"], ids["b"])
        path = f"{PROJECTS}/{ids['a']}"
        project = {"platform": "openstack", "cloud": "os", "external_id": "new"}
        answers = [
            consumer.put(f"{CLOUDS}/new", {"platform": "openstack"}),
            consumer.get(CLOUDS),
            consumer.post(PROJECTS, project),
            consumer.patch(path, {"name": "x"}),
            consumer.post(f"{path}/relations", {"target_id": ids["d"], "relation_type": TENANT}),
            consumer.patch(f"{path}/relations/{relation['id']}", {"valid_to": None}),
            consumer.delete(f"{path}/relations/{relation['id']}"),
        ]
        assert {problem(answer) for answer in answers} == {(403, "forbidden")}
        assert exact(operator.get(f"{path}/relations"))["items"] == [relation]
