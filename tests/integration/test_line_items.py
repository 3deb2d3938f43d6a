"""Line items, as the database writes them (rule 30): those of the requirement, and byte for byte a JSON library's.

Costs that no bill can show are refused.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from hashlib import sha256
from pathlib import Path
from random import Random
from tracemalloc import get_traced_memory, start, stop
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pricing.price_file import parse_price_version
from tally.domain.errors import Refused
from tally.domain.graph import Relation
from tally.domain.period import BillingPeriod
from tally.services.bills import documents as documents_of
from tally.services.bills import make_bills
from tally.store.database import Connection, connected, reading
from tally.store.json_text import read_json
from tally.store.metering.bills import issued_bills, select_document
from tally.store.metering.runs import delete_records
from tests.conftest import fresh_database
from tests.integration.ledger_by_hand import (
    Usage,
    add_projects,
    add_relations,
    begin_run,
    project_id,
    rates_of,
    write_usage,
)
from tests.unit.pricing.bill_model import Record, modelled

ROOT = Path(__file__).parents[2]
VERSION = parse_price_version((ROOT / "pricing/models/2026-03.yaml").read_text(encoding="utf-8"), "2026-03.yaml")
PERIOD = BillingPeriod.parse("2026-03")
MARCH = PERIOD.start
SHOP, TENANT, REGISTRY = "os/shop", "os/tenant", "harbor/team"
M1_LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
M1_SMALL = M1_LARGE | {"flavor": "m1.small"}

# Of the requirement, and what the document adds to it.
EXAMPLE = """
{"resource_type": "instance", "resource_id": "abc-123", "platform": "openstack", "description": "m1.large instance",
 "periods": [
  {"state": "active", "from": "2026-03-01T00:00:00Z", "to": "2026-03-11T00:00:00Z", "hours": 240,
   "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 18},
   "cost": {"vcpus": 19.20, "ram_gb": 9.60, "disk_gb": 19.20, "egress_gb": 1.62, "total": 49.62},
   "state_modifier": 1.0},
  {"state": "shutoff", "from": "2026-03-11T00:00:00Z", "to": "2026-03-21T00:00:00Z", "hours": 240,
   "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 0},
   "cost": {"vcpus": 9.60, "ram_gb": 4.80, "disk_gb": 9.60, "egress_gb": 0.00, "total": 24.00},
   "state_modifier": 0.5},
  {"state": "active", "from": "2026-03-21T00:00:00Z", "to": "2026-04-01T00:00:00Z", "hours": 264,
   "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 22.5},
   "cost": {"vcpus": 21.12, "ram_gb": 10.56, "disk_gb": 21.12, "egress_gb": 2.03, "total": 54.83},
   "state_modifier": 1.0}],
 "total": 128.45}
"""


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def usage(resource: str, size: dict[str, Any], state: str = "active", **fields: Any) -> Usage:
    platform = "harbor" if resource.startswith("repository/") else "openstack"
    project = REGISTRY if platform == "harbor" else SHOP
    return Usage(project, platform, *resource.split("/", 1), size, state, **fields)


def short(name: str, length: timedelta) -> Usage:
    return usage(f"instance/{name}", M1_LARGE, begin=MARCH, end=MARCH + length)


RECORDS = [
    usage("instance/abc-123", M1_LARGE | {"egress_gb": Decimal("18.0")}, end=day(11)),
    usage("instance/abc-123", M1_LARGE | {"egress_gb": 0}, "shutoff", begin=day(11), end=day(21)),
    usage("instance/abc-123", M1_LARGE | {"egress_gb": Decimal("22.5")}, begin=day(21)),
    usage("instance/full", M1_LARGE | {"egress_gb": 100}),
    usage("instance/Full", M1_LARGE),
    usage("instance/shelved", M1_LARGE, "shelved"),
    usage("instance/resized", M1_SMALL, end=day(16)),
    usage("instance/resized", M1_LARGE, begin=day(16)),
    usage("instance/byte", M1_LARGE | {"egress_gb": Decimal("0.000000001")}),
    short("hour", timedelta(hours=1)),
    short("half", timedelta(minutes=30)),
    short("minute", timedelta(minutes=1)),
    short("tie", timedelta(microseconds=1800)),
    short("instant", timedelta(seconds=1, microseconds=500_000)),
    usage("volume/vol-789", {"size_gb": 200, "type": "hdd"}, "in-use"),
    usage("floating_ip/fip-1", {"ip_version": 4}),
    usage("image/img-1", {"size_gb": Decimal("2.5")}),
]


@pytest.fixture(scope="module")
def metering(server_url: str, metering_template: str) -> Iterator[Connection]:
    """A shop, a tenant whose costs are on its bill, and a project of another cloud."""
    with fresh_database(server_url, metering_template) as url, connected(url) as connection:
        add_projects(connection, {SHOP: "openstack", TENANT: "openstack", REGISTRY: "harbor"})
        ends = project_id(SHOP), project_id(TENANT)
        add_relations(connection, [Relation(project_id("relation"), 1, *ends, "infrastructure_tenant", MARCH)])
        yield connection


def documents(metering: Connection, records: list[Usage]) -> dict[str, str]:
    """The bills of a month with these records, by project; nothing of it stays."""
    with metering.transaction(force_rollback=True):
        run = begin_run(metering)
        write_usage(metering, run, records)
        make_bills(metering, run)
        return {
            f"{bill.cloud}/{bill.project_id}": select_document(metering, bill)
            for bill in issued_bills(metering, run.id)
        }


@pytest.fixture(scope="module")
def items(metering: Connection) -> dict[str, Any]:
    """The line items of RECORDS by resource id."""
    document = read_json(documents(metering, RECORDS)[SHOP])
    return {item["resource_id"]: item for item in document["line_items"]}


def test_a_vm_powered_off_for_ten_days_costs_128_45(items: dict[str, Any]) -> None:
    """The example of the requirement, in the order of its keys."""
    expected = read_json(EXAMPLE)
    assert items["abc-123"] == expected
    written, wanted = items["abc-123"]["periods"][1], expected["periods"][1]
    assert [list(written), list(written["cost"])] == [list(wanted), list(wanted["cost"])]


def test_amounts_have_two_decimals_and_quantities_are_plain(metering: Connection) -> None:
    text = documents(metering, RECORDS)[SHOP]
    assert '"total": 24.00,' not in text
    assert '"total": 24.00\n' in text
    assert '"egress_gb": 18\n' in text
    assert '"egress_gb": 0.000000001\n' in text


def test_a_full_month_costs_148_80_and_egress(items: dict[str, Any]) -> None:
    assert [str(items[name]["total"]) for name in ("Full", "full")] == ["148.80", "157.80"]


def test_a_shelved_vm_is_listed_and_costs_nothing(items: dict[str, Any]) -> None:
    (period,) = items["shelved"]["periods"]
    assert [str(cost) for cost in period["cost"].values()] == ["0.00"] * 4
    assert str(period["state_modifier"]) == "0.0"


def test_a_type_modifier_stands_where_the_version_has_a_table_of_types(items: dict[str, Any]) -> None:
    assert "type_modifier" not in items["full"]["periods"][0]
    (period,) = items["vol-789"]["periods"]
    assert (str(period["type_modifier"]), str(period["state_modifier"])) == ("0.5", "1.0")


def test_usage_without_a_price_has_no_line(items: dict[str, Any]) -> None:
    assert "img-1" not in items


def test_a_resource_is_named_by_what_it_kept_all_the_time(items: dict[str, Any]) -> None:
    described = [items[name]["description"] for name in ("full", "resized", "vol-789", "fip-1")]
    assert described == ["m1.large instance", "instance resized", "hdd volume", "floating_ip fip-1"]


def test_hours_are_exact_or_rounded_half_up_to_six_decimals(items: dict[str, Any]) -> None:
    hours = [str(items[name]["periods"][0]["hours"]) for name in ("hour", "half", "minute", "tie")]
    assert hours == ["1", "0.5", "0.016667", "0.000001"]


def test_an_instant_has_a_fraction_only_where_there_is_one(items: dict[str, Any]) -> None:
    (period,) = items["instant"]["periods"]
    assert (period["from"], period["to"]) == ("2026-03-01T00:00:00Z", "2026-03-01T00:00:01.500000Z")


def test_lines_go_by_resource_type_and_id_whatever_order_rows_have(metering: Connection) -> None:
    expected = documents(metering, RECORDS)
    ids = [(item["resource_type"], item["resource_id"]) for item in read_json(expected[SHOP])["line_items"]]
    assert ids == sorted(ids)
    for seed in range(3):
        assert documents(metering, Random(seed).sample(RECORDS, len(RECORDS))) == expected


INSTANTS = st.integers(0, 31 * 86_400_000_000).map(lambda us: MARCH + timedelta(microseconds=us))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
QUANTITIES = st.one_of(st.integers(0, 10**6), st.decimals(0, 10**6, places=6))


@st.composite
def usages(draw: st.DrawFn) -> Usage:
    """A usage record of some resource, with any of the metrics of its type."""
    kind = draw(st.sampled_from(["instance", "volume", "object_storage"]))
    start, end = sorted([draw(INSTANTS), draw(INSTANTS)])
    size: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["flavor", "server_type"]), TEXTS))
    size |= draw(st.fixed_dictionaries({}, optional={"type": st.sampled_from(["ssd", "hdd"])}))
    size |= {p.metric: draw(QUANTITIES) for p in VERSION.prices_of("openstack", kind) if draw(st.booleans())}
    state = draw(st.sampled_from(["active", "shutoff", "shelved", '100 % \\ "']))
    end = max(end, start + timedelta(microseconds=1))
    return usage(f"{kind}/{draw(TEXTS)}", size, state, begin=start, end=end)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(usages(), max_size=12, unique_by=lambda one: (one.resource_type, one.resource_id, one.begin)))
def test_line_items_are_byte_for_byte_what_a_json_library_writes_of_plain_decimals(
    metering: Connection, found: list[Usage]
) -> None:
    """Of the project itself, and two levels deeper of a related one."""
    records = [Record(u.resource_type, u.resource_id, u.state, *rates_of(VERSION, u, PERIOD)) for u in found]
    expected = modelled(records, "openstack", VERSION)
    both = documents(metering, [*found, *(replace(one, project=TENANT) for one in found)])
    if not found:
        assert both == {}
        return
    assert f'"line_items": {expected}'.replace("\n", "\n  ") in both[SHOP]
    assert f'"line_items": {expected}'.replace("\n", "\n      ") in both[SHOP]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("quantity = -5, amount = -1", r"is -5 at -1\.00, and usage is never negative"),
        ("currency = 'CHF'", "is rated in CHF, and the bill in EUR"),
        ("dimension = 'gpus'", "gpus is not priced by version 2026-03"),
        ("pricing_version = '2025'", "is not priced by version 2025"),
        ("dimension = 'egress_gb'", "egress_gb is rated twice"),
    ],
)
def test_costs_that_no_bill_can_show_are_refused_by_name(metering: Connection, change: str, reason: str) -> None:
    """S37 and rule 25."""
    with metering.transaction(force_rollback=True):
        run = begin_run(metering)
        write_usage(metering, run, [
            usage("repository/app", {"storage_gb": 5, "egress_gb": 1}), usage("repository/other", {"storage_gb": 1}),
        ])
        metering.execute("alter table ledger.rated_records disable trigger user")
        metering.execute(
            f"update ledger.rated_records set {change} where resource_id = 'app' and dimension = 'storage_gb'".encode()
        )
        where = r"^bills of 2026-03: harbor/team repository app from 2026-03-01T00:00:00Z: "
        with pytest.raises(Refused, match=where + ".*" + reason):
            make_bills(metering, run)


def test_the_bill_of_a_big_project_takes_no_memory_of_the_process_that_makes_it(metering: Connection) -> None:
    """Its text is put together where its records lie, and hashed there."""
    with metering.transaction(force_rollback=True):
        run = begin_run(metering)
        write_usage(metering, run, [usage(f"instance/{number}", M1_LARGE) for number in range(3_000)])
        start()
        try:
            make_bills(metering, run)
            _, peak = get_traced_memory()
        finally:
            stop()
        [bill] = issued_bills(metering, run.id)
        document = select_document(metering, bill)
    assert sha256(document.encode()).hexdigest() == bill.document_hash
    assert len(read_json(document)["line_items"]) == 3_000
    assert peak < len(document) / 2


def test_costs_whose_usage_is_gone_are_refused(metering: Connection) -> None:
    """Their line items cannot be shown, and the total would hold them."""
    with metering.transaction(force_rollback=True):
        run = begin_run(metering)
        gone = usage("volume/gone", {"size_gb": 1, "type": "hdd"})
        write_usage(metering, run, [usage("instance/stays", M1_LARGE), gone])
        metering.execute("alter table ledger.usage_records disable trigger all")
        metering.execute("delete from ledger.usage_records where resource_id = 'gone'")
        with pytest.raises(Refused, match=r"^bills of 2026-03: os/shop: there are costs without usage$"):
            make_bills(metering, run)


def test_documents_are_those_of_the_bills_that_were_listed(server_url: str, metering_template: str) -> None:
    """In one snapshot: a run that replaces theirs meanwhile takes them away."""
    with fresh_database(server_url, metering_template) as url, connected(url) as metering, connected(url) as other:
        add_projects(metering, {SHOP: "openstack"})
        run = begin_run(metering)
        write_usage(metering, run, [usage("instance/one", M1_LARGE)])
        make_bills(metering, run)
        with reading(other):
            listed = issued_bills(other, run.id)
            delete_records(metering, run.id)
            assert [read_json(document)["project_id"] for document in documents_of(other, listed)] == ["shop"]
        assert issued_bills(other, run.id) == []
