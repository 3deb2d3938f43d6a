"""A draft of prices on a month that was closed: what each project would pay, and that nothing is written."""

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest
import simplejson
from typer.testing import CliRunner

from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.price_text import to_yaml
from tally.cli import app
from tally.domain.errors import NotFound, Refused
from tally.services.pricing import version_named
from tally.services.what_if import WhatIf, what_if
from tally.store.database import Connection, connected
from tally.store.metering import what_if as store
from tests.conftest import fresh_databases
from tests.integration.closing import House
from tests.integration.ledger_by_hand import Usage, begin_run, bill, write_usage

LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
VOLUME = {"size_gb": 100, "type": "hdd"}
RECORDS = (
    Usage("os/shop", "openstack", "instance", "web", LARGE),
    Usage("os/shop", "openstack", "volume", "data", VOLUME, state="in-use"),
    Usage("os/archive", "openstack", "volume", "tape", VOLUME | {"size_gb": 3}, state="in-use"),
    Usage("hz/mail", "hetzner", "server", "mx", {"vcpus": 2, "ram_gb": 4, "disk_gb": 40}, state="running"),
)


@pytest.fixture(scope="module")
def databases(
    server_url: str, reporting_template: str, metering_template: str
) -> Iterator[tuple[Connection, Connection]]:
    """A month that is finalized and corrected: an instance of another project counts no longer, another one does."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        regular = begin_run(metering)
        write_usage(metering, regular, [*RECORDS, Usage("os/gone", "openstack", "instance", "old", LARGE)])
        bill(metering, regular)
        correction = begin_run(metering, 2, corrects=regular)
        metering.execute(
            """insert into ledger.usage_records (cloud, platform, resource_type, resource_id, id, run_id, sign,
                   reverses_id, project_id, state, lifetime_no, from_ts, to_ts, usage)
               select cloud, platform, resource_type, resource_id, gen_random_uuid(), %s, -1, id, project_id, state,
                   lifetime_no, from_ts, to_ts, usage
               from ledger.usage_records where resource_id = 'old'""",
            [correction.id],
        )
        metering.execute(
            """insert into ledger.rated_records (cloud, platform, resource_type, resource_id, id, run_id, sign,
                   reverses_id, usage_record_id, project_id, dimension, quantity, price, state_modifier, type_modifier,
                   amount_exact, amount, currency, pricing_version)
               select cloud, platform, resource_type, resource_id, gen_random_uuid(), %s, -1, id, usage_record_id,
                   project_id, dimension, -quantity, price, state_modifier, type_modifier, -amount_exact, -amount,
                   currency, pricing_version
               from ledger.rated_records where resource_id = 'old'""",
            [correction.id],
        )
        write_usage(metering, correction, [Usage("os/new", "openstack", "floating_ip", "ip")])
        bill(metering, correction)
        yield reporting, metering


@pytest.fixture
def march(databases: tuple[Connection, Connection]) -> PriceVersion:
    """The version that the month was rated by."""
    return version_named(databases[1], "2026-03")


def draft(version: PriceVersion, *changes: tuple[str, str]) -> PriceVersion:
    """The version with other texts in its file."""
    text = to_yaml(version)
    for written, instead in changes:
        assert written in text
        text = text.replace(written, instead)
    return parse_price_version(text, "draft.yaml")


def by_project(made: WhatIf) -> dict[str, Decimal]:
    return {project.project_id: project.difference for project in made.projects}


def contents(connection: Connection) -> dict[str, str]:
    """A hash of the rows of each table of the ledger."""
    tables = connection.execute("select table_name from information_schema.tables where table_schema = 'ledger'")
    query = "select coalesce(md5(string_agg(t::text, '' order by t::text)), '') from ledger.{} as t"
    return {name: str(connection.execute(query.format(name).encode()).fetchone()) for (name,) in tables.fetchall()}


def test_the_prices_that_hold_change_nothing(
    databases: tuple[Connection, Connection], march: PriceVersion
) -> None:
    """The draft is rated by the statement of the close: what counts is found again, to the cent and exactly."""
    made = what_if(*databases, "2026-03", march)
    assert {project.project_id for project in made.projects} == {"shop", "archive", "mail", "new"}
    assert all(
        (project.before, project.before_exact) == (project.after, project.after_exact) for project in made.projects
    )
    assert made.total.before == Decimal("214.38")
    assert (made.total.difference, made.losers, made.winners, made.unsettled) == (Decimal("0.00"), 0, 0, ())


def test_who_would_pay_more_comes_first(databases: tuple[Connection, Connection], march: PriceVersion) -> None:
    """In the order of the difference, with its share; the total is the sum."""
    dearer = draft(march, ("price_per_unit_hour: 0.0001\n", "price_per_unit_hour: 0.0003\n"), ("0.015", "0.01"))
    made = what_if(*databases, "2026-03", dearer)
    assert list(by_project(made).items()) == [
        ("shop", Decimal("7.44")), ("archive", Decimal("0.22")), ("new", Decimal("0.00")), ("mail", Decimal("-7.44")),
    ]  # fmt: skip
    assert [project.percent for project in made.projects] == [
        Decimal("4.88"), Decimal("200.00"), Decimal("0.00"), Decimal("-12.82"),
    ]  # fmt: skip
    assert (made.total.difference, made.losers, made.winners) == (Decimal("0.22"), 2, 1)
    archive = made.projects[1]
    assert (archive.drift_before, archive.drift_after) == (Decimal("-0.0016"), Decimal("-0.0048"))


def test_a_draft_may_have_tiers_and_caps(databases: tuple[Connection, Connection], march: PriceVersion) -> None:
    """All that a loaded version may have: 2976 hours of processors in two tiers, and a disk that is capped."""
    tiers = """tiers:
          mode: graduated
          per: project
          steps:
          - {up_to: 1000, price_per_unit_hour: 0.02}
          - {price_per_unit_hour: 0.01}
"""
    changed = draft(
        march,
        ("price_per_unit_hour: 0.02\n", tiers),
        ("price_per_unit_hour: 0.001\n", "price_per_unit_hour: 0.001\n        monthly_cap: 50\n"),
    )
    assert by_project(what_if(*databases, "2026-03", changed))["shop"] == Decimal("-19.76") + Decimal("-9.52")


def test_what_the_draft_leaves_open_is_told(databases: tuple[Connection, Connection], march: PriceVersion) -> None:
    """What is no longer priced, and states and types that its tables lack: each would be a finding of a close."""
    text = to_yaml(march)
    begin, end = text.index("    floating_ip:\n"), text.index("    instance:\n", text.index("  openstack:\n"))
    without = parse_price_version(text[:begin] + text[end:], "draft.yaml")
    changed = draft(
        without, ("metric: ram_gb\n", "metric: ram\n"), ("        hdd: 0.5\n", ""), ("'off': 0.5", "running: 0.5")
    )
    made = what_if(*databases, "2026-03", changed)
    told = {(u.finding.kind, f"{u.platform}.{u.resource_type}", u.finding.subject, u.records) for u in made.unsettled}
    assert told == {
        ("missing_gauge", "openstack.instance", "ram", 1),
        ("missing_gauge", "hetzner.server", "ram", 1),
        ("unpriced", "openstack.instance", "ram_gb", 1),
        ("unpriced", "hetzner.server", "ram_gb", 1),
        ("unpriced", "openstack.floating_ip", "*", 1),
        ("unlisted_type", "openstack.volume", "hdd", 2),
    }
    assert by_project(made)["new"] == Decimal("-3.72")


def test_nothing_is_written(databases: tuple[Connection, Connection], march: PriceVersion) -> None:
    """Neither to the ledger nor to the versions; the transaction could not."""
    before = contents(databases[1])
    what_if(*databases, "2026-03", draft(march, ("0.02\n", "0.03\n"), ("version: 2026-03", "version: draft")))
    assert contents(databases[1]) == before
    assert len(before) > 10
    with pytest.raises(psycopg.errors.ReadOnlySqlTransaction), store.reading(databases[1]):
        databases[1].execute("delete from ledger.waivers")


def test_a_month_without_a_run_and_another_currency_are_refused(
    databases: tuple[Connection, Connection], march: PriceVersion
) -> None:
    """Rule 25: amounts of two currencies are never compared."""
    with pytest.raises(NotFound, match="2026-04 has no completed run"):
        what_if(*databases, "2026-04", march)
    with pytest.raises(Refused, match="2026-03 was rated in EUR, 2026-03 is in CHF"):
        what_if(*databases, "2026-03", draft(march, ("EUR", "CHF")))


def test_a_draft_is_tried_on_the_command_line(
    house: House, home: Path, dagster_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the usage that a close has metered: the draft of the prices that hold comes to what was rated."""
    for name, value in house.environment(home, dagster_url).items():
        monkeypatch.setenv(name, value)

    def tally(*arguments: str) -> str:
        done = CliRunner().invoke(app, ["what-if", "--period", "2026-03", *arguments], catch_exceptions=False)
        assert done.exit_code == 0
        return done.stdout

    with connected(house.metering_url) as metering:
        march = version_named(metering, "2026-03")
    same = simplejson.loads(tally("--pricing", "2026-03", "--format", "json"), use_decimal=True)
    assert [p["difference"] for p in same["projects"]] == [0, 0]
    assert same["total"]["before"] == same["total"]["after"] > 0
    path = tmp_path / "draft.yaml"
    path.write_text(to_yaml(draft(march, ("version: 2026-03", "version: free"), (": 0.02\n", ": 0.0\n"))), "utf-8")
    shown = tally("--pricing", str(path)).splitlines()
    assert shown[0] == "2026-03: 2026-03 -> free, in EUR"
    assert "0 would pay more, 2 less, 0 the same" in shown
    rows = tally("--pricing", str(path), "--format", "csv").splitlines()
    assert rows[0].split(",")[:5] == ["cloud", "project_id", "before", "after", "difference"]
    assert [row.split(",")[:2] for row in rows[1:]] == [["os-prod-eu1", "p-2"], ["os-prod-eu1", "p-1"]]
