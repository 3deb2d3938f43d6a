"""Quotes: described usage costs to the cent what its bill says, and what makes no sense is refused."""

from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from pricing.price_file import parse_price_version
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.services.bills import bills, make_bills
from tally.services.pricing import add_versions
from tally.services.projects import create_project
from tally.services.quote_document import read_items
from tally.services.quotes import Quote, quote
from tally.services.relations import relate
from tally.store.database import Connection
from tally.store.metering.adjustments import select_adjustments
from tally.store.metering.runs import select_runs
from tests.conftest import fresh_databases
from tests.integration.api_server import Client, exact
from tests.integration.closing import LARGE, House
from tests.integration.command_line import environment, run
from tests.integration.ledger_by_hand import add_relations
from tests.integration.registering import change

MARCH = BillingPeriod.parse("2026-03")
Amounts = dict[str, Decimal]


def instance(**fields: Any) -> dict[str, Any]:
    return {"platform": "openstack", "resource_type": "instance", "size": LARGE} | fields


@pytest.fixture(scope="module")
def databases(
    server_url: str, reporting_template: str, metering_template: str
) -> Iterator[tuple[Connection, Connection]]:
    """A reporting and a metering database in which nothing is but what ships."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        yield reporting, metering


def priced(databases: tuple[Connection, Connection], *items: dict[str, Any], period: BillingPeriod = MARCH) -> Quote:
    return quote(*databases, period, read_items({"items": items}))


def amounts(made: Quote) -> list[Amounts]:
    return [{rate.dimension: rate.amount for rate in item.rates} for item in made.items]


def described(metering: Connection) -> list[tuple[UUID, str, dict[str, Any]]]:
    """(id, project, item of a quote) of each usage record of a closed month."""
    records = metering.execute(
        "select id, project_id, platform, resource_type, resource_id, state, from_ts, to_ts, usage, counters"
        " from ledger.usage_records order by resource_id, from_ts"
    ).fetchall()
    return [
        (
            id_,
            project,
            {
                "platform": platform,
                "resource_type": resource_type,
                "resource": resource_id,
                "state": state,
                "from": from_ts.isoformat(),
                "to": to_ts.isoformat(),
                "size": {k: v for k, v in usage.items() if k not in {"minutes", "count", *counters}},
                "usage": {counter: usage[counter] for counter in counters},
            },
        )
        for id_, project, platform, resource_type, resource_id, state, from_ts, to_ts, usage, counters in records
    ]


def test_a_month_that_was_closed_is_quoted_as_it_was_rated(house: House) -> None:
    """S50: the same records, described, come to the same amounts, exact and rounded, and to the totals of the bills."""
    with house.connected() as (reporting, metering):
        records = described(metering)
        made = quote(reporting, metering, MARCH, read_items({"items": [item for _, _, item in records]}))
        rated = metering.execute(
            "select usage_record_id, dimension, quantity, price, state_modifier, type_modifier, amount, amount_exact"
            " from ledger.rated_records"
        ).fetchall()
        bills = dict(metering.execute("select project_id, total from ledger.bills").fetchall())
    assert len(records) == 4
    quoted = [
        (record[0], r.dimension, r.quantity, r.price, r.state_modifier, r.type_modifier, r.amount, r.amount_exact)
        for record, item in zip(records, made.items, strict=True)
        for r in item.rates
    ]
    assert sorted(quoted) == sorted(rated)
    totals: defaultdict[str, Decimal] = defaultdict(Decimal)
    for record, item in zip(records, made.items, strict=True):
        totals[record[1]] += item.total
    assert totals == bills


def test_a_discounted_project_is_quoted_what_its_bill_says(house: House) -> None:
    """S50: with every adjustment of the bill, that is of the project that pays for it and of the groups of that one."""
    with house.connected() as (reporting, metering):
        payer = agree(reporting, metering)
        (run,) = select_runs(metering, period="2026-03", statuses=("completed",))
        make_bills(metering, run)
        items = read_items({"items": [item for _, project, item in described(metering) if project == "p-1"]})
        made = quote(reporting, metering, MARCH, items, project=("os-prod-eu1", "p-1"))
        (bill,) = bills(metering, MARCH, "os-prod-eu1/payer")
        agreed = select_adjustments(metering, run.id)
        large = quote(reporting, metering, MARCH, read_items({"items": [instance(hours=744)]}), project=payer)
        hidden = {"project": ("os-prod-eu1", "p-1"), "visible": [("os-prod-eu1", "p-1")]}
        with pytest.raises(Refused, match="it is on the bill of a project that is not yours"):
            quote(reporting, metering, MARCH, items, **hidden)
    assert made.project is not None
    assert (made.project.billed.address, made.adjusted.net) == ("os-prod-eu1/payer", bill.total)
    assert len(agreed) == 3
    assert {(line.base, line.amount) for line in made.adjusted.lines} == {(row.base, row.amount) for row in agreed}
    assert large.adjusted.base == Decimal("148.80")
    assert [line.amount for line in large.adjusted.lines] == [Decimal("1.49"), Decimal("-15.03"), Decimal("6.76")]
    assert large.adjusted.net == Decimal("135.26")


def agree(reporting: Connection, metering: Connection) -> ProjectKey:
    """Let a project pay for p-1, with agreements of its own and of its group, in both databases; returns who pays."""
    ids = {}
    for name in ("p-1", "payer", "group"):
        cloud, platform = ("meta", "meta") if name == "group" else ("os-prod-eu1", "openstack")
        project = create_project(reporting, platform, cloud, name, None, None, "test")
        ids[name] = project.id
        metering.execute(
            "insert into raw.projects (id, platform, cloud, external_id, load_id) values (%s, %s, %s, %s, 1)",
            [project.id, platform, cloud, name],
        )
    for source, target, kind, agreed in (
        ("payer", "p-1", "infrastructure_tenant", []),
        ("payer", "group", "member_of", [{"type": "surcharge", "rate": Decimal("0.01"), "scope": "all"},
                                          {"type": "discount", "rate": Decimal("0.1"), "scope": "openstack.instance"}]),
        ("group", "payer", "managed_by", [{"type": "kickback", "rate": Decimal("0.05"), "scope": "all"}]),
    ):  # fmt: skip
        metadata = {"pricing_adjustments": agreed} if agreed else {}
        made = relate(reporting, ids[source], ids[target], kind, MARCH.start, None, metadata, change())
        add_relations(metering, [made.relation])
    return "os-prod-eu1", "payer"


def test_a_quote_for_a_project_is_of_its_platform(databases: tuple[Connection, Connection]) -> None:
    """Which the registry has to know."""
    reporting, metering = databases
    create_project(reporting, "hetzner", "hetzner-main", "h-1", None, None, "test")
    items = read_items({"items": [instance()]})
    with pytest.raises(InvalidInput, match=r"items\[0\] is of openstack, but hetzner-main/h-1 is of hetzner"):
        quote(reporting, metering, MARCH, items, project=("hetzner-main", "h-1"))
    with pytest.raises(NotFound, match="project 'hetzner-main/h-2' is not registered"):
        quote(reporting, metering, MARCH, items, project=("hetzner-main", "h-2"))


def test_a_large_instance_costs_what_the_requirement_says(databases: tuple[Connection, Connection]) -> None:
    """m1.large for 744 hours, all of March, powered off, and shelved; counters beside time."""
    made = priced(
        databases,
        instance(hours=744),
        instance(usage={"egress_gb": Decimal("12.5")}),
        instance(state="shutoff", hours=Decimal("0.5")),
        instance(state="shelved", **{"from": "2026-03-10T00:00:00Z", "to": "2026-03-11T00:00:00Z"}),
    )
    month = {"vcpus": Decimal("59.52"), "ram_gb": Decimal("29.76"), "disk_gb": Decimal("59.52")}
    assert amounts(made) == [
        month,
        month | {"egress_gb": Decimal("1.13")},
        {"vcpus": Decimal("0.02"), "ram_gb": Decimal("0.01"), "disk_gb": Decimal("0.02")},
        {"vcpus": Decimal("0.00"), "ram_gb": Decimal("0.00"), "disk_gb": Decimal("0.00")},
    ]
    assert made.items[0].total == Decimal("148.80")
    assert made.adjusted.net == Decimal("298.78")
    assert [rate.dimension for rate in made.items[1].rates] == ["vcpus", "ram_gb", "disk_gb", "egress_gb"]
    assert made.items[0].described.usage.state == "active"


def test_types_of_a_size_and_existence_are_priced(databases: tuple[Connection, Connection]) -> None:
    """By modifiers of type, and by count; several platforms fit into one quote."""
    volume = {"platform": "openstack", "resource_type": "volume"}
    made = priced(
        databases,
        volume | {"size": {"size_gb": 1000, "type": "hdd"}},
        {"platform": "openstack", "resource_type": "floating_ip", "hours": 10},
        {"platform": "hetzner", "resource_type": "server", "size": {"vcpus": 2, "ram_gb": 4, "disk_gb": 40}},
    )
    assert amounts(made)[:2] == [{"size_gb": Decimal("37.20")}, {"count": Decimal("0.05")}]
    assert [item.described.usage.state for item in made.items] == ["available", "unknown", "running"]


def test_what_a_close_would_find_is_told(databases: tuple[Connection, Connection]) -> None:
    """A state that the prices do not list costs full price."""
    made = priced(databases, instance(state="rescued", hours=1), instance(hours=1))
    assert [(finding.kind, finding.subject) for finding in made.items[0].findings] == [("unlisted_state", "rescued")]
    assert made.items[1].findings == ()
    assert amounts(made)[0] == amounts(made)[1]


@pytest.mark.parametrize(
    ("item", "fault"),
    [
        (instance(resource_type="instanz"), "'openstack.instanz' is not in the registry"),
        (instance(size={}), "size: 'vcpus' is a required property"),
        (instance(size=LARGE | {"vcpus": -1}), "size.vcpus is negative"),
        (instance(usage={"egress": 1}), "usage.egress is none of egress_gb, ingress_gb"),
        (instance(hours=745), "hours is 745; 2026-03 has 744"),
        (instance(hours=Decimal("0.0000000001")), "the finest is a microsecond"),
        (instance(hours=1, **{"from": "2026-03-01T00:00:00Z"}), "hours and from or to: say either"),
        (instance(**{"from": "2026-02-28T00:00:00Z"}), "a quote is for one month"),
        (instance(**{"from": "2026-03-02T00:00:00Z", "to": "2026-03-02T00:00:00Z"}), "a quote is for one month"),
        (instance(**{"from": "March"}), r"items\[0\].from: 'March' is not an ISO 8601"),
    ],
)
def test_what_makes_no_sense_is_refused(
    databases: tuple[Connection, Connection], item: dict[str, Any], fault: str
) -> None:
    with pytest.raises(InvalidInput, match=fault):
        priced(databases, item)


def test_all_faults_are_told_with_their_items(databases: tuple[Connection, Connection]) -> None:
    """One that is in order is not named."""
    with pytest.raises(InvalidInput) as caught:
        priced(databases, instance(hours=745), instance(), instance(size={"vcpus": 1}))
    assert [part[:8] for part in str(caught.value).split("; ") if part.startswith("items")] == ["items[0]", "items[2]"]


def test_a_resource_is_described_once_at_a_time(databases: tuple[Connection, Connection]) -> None:
    """It may change; counted twice, it would cost twice."""
    first = instance(resource="web", to="2026-03-10T00:00:00Z")
    second = instance(resource="web", state="shutoff", **{"from": "2026-03-10T00:00:00Z"})
    assert len(priced(databases, second, first).items) == 2
    with pytest.raises(InvalidInput, match="resource 'web' is described twice from 2026-03-01T00:00:00Z on"):
        priced(databases, first, instance(resource="web"))


def test_a_month_has_its_own_version_and_its_own_length(databases: tuple[Connection, Connection]) -> None:
    """Or a named one; never another month's by itself."""
    april = priced(databases, instance(), period=BillingPeriod.parse("2026-04"))
    assert april.adjusted.net == Decimal("144.00")
    february = BillingPeriod.parse("2026-02")
    with pytest.raises(Refused, match="no price version is valid for 2026-02"):
        priced(databases, instance(), period=february)
    items = read_items({"items": [instance()]})
    assert quote(*databases, february, items, price_version="2026-03").adjusted.base == Decimal("134.40")
    with pytest.raises(NotFound, match="price version 'x' is not loaded"):
        quote(*databases, february, items, price_version="x")


CAPPED = """
version: capped
valid_from: 2030-09
currency: EUR
pricing:
  hetzner:
    server:
      dimensions:
        - {metric: count, type: time_gauge, price_per_unit_hour: 0.011, monthly_cap: 6.90, billing_increment: 1h}
"""


def test_a_resource_that_changes_is_capped_as_one(databases: tuple[Connection, Connection]) -> None:
    """S45: its intervals share the cap of the month, and the hour that is begun is paid once."""
    add_versions(databases[1], [parse_price_version(CAPPED, "prices.yaml")])
    server = {"platform": "hetzner", "resource_type": "server", "size": {"vcpus": 2, "ram_gb": 4, "disk_gb": 40}}
    noon = "2030-09-15T12:00:00Z"
    made = priced(
        databases,
        server | {"resource": "web", "to": noon},
        server | {"resource": "web", "from": noon, "state": "off"},
        server | {"hours": Decimal("1.5")},
        period=BillingPeriod.parse("2030-09"),
    )
    assert [item.total for item in made.items] == [Decimal("3.83"), Decimal("3.07"), Decimal("0.02")]
    assert made.items[2].rates[0].amount_exact == Decimal("0.022")
    assert made.items[2].rates[0].basis == {"charged": 0, "microseconds": 7_200_000_000}


def test_a_quote_is_answered_over_http(api: Client) -> None:
    """Its numbers are exact, and what is wrong is told as everywhere."""
    body = {"period": "2026-03", "items": [instance(hours=744)]}
    answer = exact(api.post("/api/v1/quotes", body))
    assert (answer["total"], answer["currency"], answer["price_version"]) == (Decimal("148.80"), "EUR", "2026-03")
    (item,) = answer["items"]
    assert (item["hours"], item["from"], item["to"]) == (744, "2026-03-01T00:00:00Z", "2026-04-01T00:00:00Z")
    assert item["rates"][0] == {
        "dimension": "vcpus",
        "quantity": 4,
        "price": Decimal("0.02"),
        "state_modifier": 1,
        "type_modifier": 1,
        "amount": Decimal("59.52"),
        "amount_exact": Decimal("59.52"),
        "basis": None,
        "from": None,
        "to": None,
    }
    assert answer["price_changes"] == []
    for wrong, status in (
        ({"period": "2026-03", "items": []}, 400),
        ({"period": "2026-03", "items": [instance()] * 1001}, 400),
        (body | {"items": [instance(hours=0)]}, 400),
        ({"period": "2026-02", "items": [instance(hours=1)]}, 409),
        (body | {"price_version": "x"}, 404),
    ):
        assert api.post("/api/v1/quotes", wrong).status_code == status


def test_a_quote_is_printed(house: House, home: Any, dagster_url: str) -> None:
    """One item by its arguments, several from a file; for people and for programs."""
    variables = environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=house.reporting_url,
        TALLY_METERING_URL=house.metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )
    size = ("vcpus=4", "ram_gb=8", "disk_gb=80")
    asked = ("quote", "openstack.instance", *size, "--period", "2026-03", "--state", "rescued")
    shown = run(variables, *asked, "--usage", "egress_gb=0.5").out.splitlines()
    assert shown[2].split() == [
        "openstack.instance", "item", "0", "rescued", "744", "vcpus", "4", "0.02", "1", "1", "59.52",
    ]  # fmt: skip
    assert shown[-2:] == [
        "finding unlisted_state: openstack.instance item 0: rescued",
        "total 148.85 EUR (2026-03, price version 2026-03)",
    ]
    items = b'{"items": [{"platform": "openstack", "resource_type": "floating_ip", "hours": 1.5}]}'
    printed = run(variables, "quote", "--file", "-", "--period", "2026-03", "--format", "csv", stdin=items)
    (line,) = printed.out.splitlines()[1:]
    assert line == "item 0,openstack,floating_ip,unknown,1.5,count,1,0.005,1,1,0.01,0.007500000000,EUR"
    wrong = run(variables, "quote", "--file", "-", stdin=b'{"items": [{"platform": "openstack"}]}')
    assert (wrong.status, "'resource_type' is a required property" in wrong.error) == (2, True)
