"""The kickback report: what partners are owed, by command, over HTTP and as a mart (rule 29)."""

import csv
import json
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

from tally.domain.graph import Relation
from tally.domain.run import Run
from tally.services.kickbacks import COLUMNS, as_csv, as_json, kickbacks
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.api_server import exact, live_api
from tests.integration.command_line import environment
from tests.integration.command_line import run as run_tally
from tests.integration.ledger_by_hand import (
    Usage,
    add_projects,
    add_relations,
    begin_run,
    bill,
    project_id,
    write_usage,
)
from tests.integration.metering_sql import dbt
from tests.integration.registering import day

CORP, OTHER = "partners/corp", "partners/other, inc"
ADDRESS = "/api/v1/kickbacks"


def kickback(number: int, source: str, target: str, rate: str, version: int = 1) -> Relation:
    agreed = {"type": "kickback", "rate": Decimal(rate), "description": '=10 % of "all"'}
    ends = project_id(source), project_id(target)
    metadata = {"pricing_adjustments": [agreed]}
    return Relation(UUID(int=number), version, *ends, "managed_by", day("2026-03-01"), None, metadata)


@pytest.fixture(scope="module")
def owed(server_url: str, metering_template: str) -> Iterator[tuple[Connection, str]]:
    """Two customers, of 29.76 EUR each, and two partners; a correction lowers what one of them gets for the second."""
    with fresh_database(server_url, metering_template) as url, connected(url) as metering:
        add_projects(
            metering,
            {"os/a": "openstack", "os/b": "openstack", CORP: "meta", OTHER: "meta"},
            {CORP: "Partner Corp", OTHER: "Büro Ltd"},
        )
        agreed = kickback(1, "os/a", CORP, "0.1"), kickback(2, "os/b", CORP, "0.5"), kickback(3, "os/b", OTHER, "0.2")
        add_relations(metering, agreed)
        run = begin_run(metering)
        usage = {"vcpus": 2, "flavor": "v2"}
        write_usage(
            metering, run, [Usage(project, "openstack", "instance", project, usage) for project in ("os/a", "os/b")]
        )
        bill(metering, run)
        add_relations(metering, [kickback(2, "os/b", CORP, "0.1", version=2)], load_id=2)
        bill(metering, begin_run(metering, 2, run))
        yield metering, url


def test_each_partner_is_owed_the_kickbacks_of_the_bills_that_count(owed: tuple[Connection, str]) -> None:
    """10 % of 29.76 is 2.98, 20 % are 5.95; what was agreed first no longer counts."""
    report = kickbacks(owed[0], "2026-03")
    assert [(p.name, p.currency, p.amount, [(x.project_id, x.amount) for x in p.lines]) for p in report.partners] == [
        ("Partner Corp", "EUR", Decimal("5.96"), [("a", Decimal("2.98")), ("b", Decimal("2.98"))]),
        ("Büro Ltd", "EUR", Decimal("5.95"), [("b", Decimal("5.95"))]),
    ]


@pytest.mark.parametrize("name", ["corp", CORP])
def test_one_partner_is_named_by_its_address_or_its_id(owed: tuple[Connection, str], name: str) -> None:
    assert [partner.name for partner in kickbacks(owed[0], "2026-03", name).partners] == ["Partner Corp"]


def test_json_and_csv_say_the_same(owed: tuple[Connection, str]) -> None:
    """To the digit; names with commas, quotes and umlauts included. A spreadsheet works nothing out of a text."""
    report = kickbacks(owed[0], "2026-03")
    document = json.loads(as_json(report), parse_float=str)
    rows = list(csv.DictReader(as_csv(report).splitlines()))
    assert tuple(rows[0]) == COLUMNS
    flat = [
        {"period": document["period"], "currency": partner["currency"], **line}
        | {"description": "'" + line["description"]}
        | {f"partner_{key}": value for key, value in partner["partner"].items()}
        for partner in document["partners"]
        for line in partner["lines"]
    ]
    assert rows == flat
    assert (document["status"], len(rows)) == ("finalized", 3)


def test_the_command_prints_a_table_json_or_csv(owed: tuple[Connection, str], home: Path, reporting_url: str) -> None:
    variables = environment(
        TALLY_HOME=str(home), TALLY_REPORTING_URL=reporting_url, TALLY_METERING_URL=owed[1], TALLY_DAGSTER_URL=owed[1]
    )

    def printed(*arguments: str) -> str:
        done = run_tally(variables, "kickback", *arguments)
        assert (done.status, done.err) == (0, "")
        return done.out

    lines = [" ".join(line.split()) for line in printed("2026-03").splitlines()]
    assert lines[2:] == ["partners/corp Partner Corp 2 5.96 EUR", "partners/other, inc Büro Ltd 1 5.95 EUR"]
    report = kickbacks(owed[0], "2026-03", "corp")
    assert printed("2026-03", "--partner", CORP, "--format", "csv") == as_csv(report)
    assert printed("2026-03", "--partner", "nobody") == "none\n"
    assert "2026-02 has no completed run" in run_tally(variables, "kickback", "2026-02").error


def test_over_http_it_comes_page_by_page(owed: tuple[Connection, str], reporting_url: str) -> None:
    with live_api(reporting_url, owed[1]) as client:
        items = client.items(ADDRESS, period="2026-03", limit=1)
        one = exact(client.get(ADDRESS, period="2026-03", partner=OTHER))["items"]
        missing = client.get(ADDRESS, period="2026-02")
    assert [(item["partner"]["name"], item["amount"]) for item in items] == [
        ("Partner Corp", Decimal("5.96")), ("Büro Ltd", Decimal("5.95")),
    ]
    assert one == items[1:]
    assert missing.status_code == 404


def test_the_mart_adds_up_to_the_report(owed: tuple[Connection, str], tally_home: None) -> None:  # noqa: ARG001
    """The rows of the correction are what it changes."""
    metering, _ = owed
    dbt(metering, "build", _any_run(metering), "kickbacks_monthly")
    rows: list[Any] = metering.execute(
        """select partner_name, project_id, sum(amount), count(*) from marts.kickbacks_monthly
           where period = '2026-03' and currency = 'EUR' group by 1, 2 order by 1, 2"""
    ).fetchall()
    assert rows == [
        ("Büro Ltd", "b", Decimal("5.95"), 2),
        ("Partner Corp", "a", Decimal("2.98"), 1),
        ("Partner Corp", "b", Decimal("2.98"), 2),
    ]


def _any_run(metering: Connection) -> Run:
    return kickbacks(metering, "2026-03").run
