"""Completeness and waivers over HTTP: who may see and do what, page by page, and with the runs they were for."""

from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tally.domain.principal import Principal, Role
from tally.store.database import connected
from tally.store.metering.runs import mark_finalized, select_runs
from tally.store.metering.waivers import keep_with_run
from tests.integration.api_server import NOW, Client, exact, live_api
from tests.integration.callers import api_for, consumer
from tests.integration.closing import House

REPORT, WAIVERS = "/api/v1/periods/2026-03/completeness", "/api/v1/periods/2026-03/waivers"
CLOUD = "os-prod-eu1"
CALLERS = {
    "operator": Principal("operator", Role.OPERATOR),
    "finance": Principal("finance", Role.READ_ALL),
    "customer": consumer((CLOUD, "p-1")),
}


@pytest.fixture
def incomplete(house: House) -> House:
    """A closed month with two resources that began nobody knows when."""
    with connected(house.metering_url) as metering:
        metering.execute(
            "insert into ledger.findings (run_id, kind, cloud, platform, resource_type, subject, detail)"
            " select id, 'open_left', 'os-prod-eu1', 'openstack', 'instance', subject, 'd'"
            " from ledger.runs cross join (values ('i-7'), ('i-8')) as found (subject)"
        )
    return house


@pytest.fixture
def clients(incomplete: House) -> Iterator[Mapping[str, Client]]:
    """The API, for each caller."""
    with api_for(incomplete.reporting_url, incomplete.metering_url, CALLERS) as clients:
        yield clients


def test_the_report_is_for_who_may_see_everything(clients: Mapping[str, Client]) -> None:
    """A customer is refused: what is missing is nobody's own."""
    for name in ("operator", "finance"):
        found = exact(clients[name].get(REPORT))
        assert (found["status"], found["currency"], found["blocks"]) == ("completed", "EUR", True)
        (line,) = [line for line in found["items"] if line["blocks"]]
        assert line == {
            "kind": "open_left",
            "cloud": CLOUD,
            "count": 2,
            "action": "block",
            "blocks": True,
            "waiver": None,
            "at_risk": None,
            "untold": 2,
            "examples": ["openstack instance i-7: d", "openstack instance i-8: d"],
        }
    assert clients["customer"].get(REPORT).status_code == 403
    assert clients["finance"].get(REPORT.replace("03", "02")).status_code == 404


def test_an_operator_waives_and_the_report_says_so(clients: Mapping[str, Client]) -> None:
    """Who, why, until when; a second time nothing is added, and only an operator may."""
    body = {"kind": "open_left", "cloud": CLOUD, "reason": "known", "until": "2030-05"}
    assert clients["finance"].post(WAIVERS, body).status_code == 403
    made = clients["operator"].post(WAIVERS, body)
    assert made.status_code == 201
    waiver = exact(made)
    assert (waiver["actor"], waiver["until"]) == ("operator", "2030-06-01T00:00:00Z")
    again = clients["operator"].post(WAIVERS, body | {"until": "2030-05-31T00:00:00Z"})
    assert (again.status_code, exact(again)) == (200, waiver)
    found = exact(clients["finance"].get(REPORT))
    assert not found["blocks"]
    assert [line["waiver"] for line in found["items"] if line["kind"] == "open_left"] == [waiver]
    assert exact(clients["operator"].post(WAIVERS, body | {"until": "2031-01-01T00:00:00Z"}))["id"] > waiver["id"]
    assert len(clients["finance"].items(WAIVERS, limit=1)) == 2
    assert clients["customer"].get(WAIVERS).status_code == 403


@pytest.mark.parametrize(
    "change", [{"kind": "cycle"}, {"kind": "typo"}, {"until": "soon please"}, {"until": "2020-01"}, {"reason": " "}]
)
def test_a_waiver_of_nothing_is_refused(clients: Mapping[str, Client], change: dict[str, str]) -> None:
    """What does not block, what is no kind, what has ended, what has no reason: 400, and nothing is kept."""
    answer = clients["operator"].post(WAIVERS, {"kind": "open_left", "reason": "known"} | change)
    assert (answer.status_code, answer.json()["type"]) == (400, "urn:tally:problem:invalid-request")
    assert clients["operator"].items(WAIVERS) == []


def test_a_run_shows_the_waivers_by_which_it_was_finalized(incomplete: House) -> None:
    """With who gave them."""
    with live_api(incomplete.reporting_url, incomplete.metering_url) as client:
        waiver = exact(client.post(WAIVERS, {"kind": "open_left", "reason": "known"}))
        with connected(incomplete.metering_url) as metering:
            (run,) = select_runs(metering)
            keep_with_run(metering, run.id, [waiver["id"]])
            mark_finalized(metering, run.id, NOW)
        (shown,) = client.items("/api/v1/runs")
    assert shown["waivers"] == [waiver]


def test_a_policy_that_cannot_be_read_is_not_the_fault_of_the_caller(incomplete: House, tmp_path: Path) -> None:
    """503, with what is wrong."""
    path = tmp_path / "policy.yaml"
    path.write_text("findings: {}\n")
    with live_api(incomplete.reporting_url, incomplete.metering_url, completeness_policy=path) as client:
        answer = client.get(REPORT)
    assert answer.status_code == 503
    assert "lacks" in answer.json()["detail"]
