"""The bill document (rule 30): equal to the requirement's examples field by field, and the same in whatever order."""

import json
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest
import simplejson
from hypothesis import given
from hypothesis import strategies as st

from pricing.bill import ProjectRef, RelatedProject, build_bill
from pricing.line_items import Forms
from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.rating import Rate, rate
from tally.domain.errors import InvalidInput, Refused
from tally.domain.instants import microseconds
from tests.unit.pricing.bill_model import Record, modelled

ROOT = Path(__file__).parents[3]
MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
PROJECT = ProjectRef("os-prod-eu1", "proj-456", "openstack")
TEAM = ProjectRef("garden-eu1", "team-alpha", "gardener")
TENANT = ProjectRef("os-prod-eu1", "shoot-abc-os-tenant", "openstack")
M1_LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
VERSION = parse_price_version((ROOT / "pricing/models/2026-03.yaml").read_text(encoding="utf-8"), "2026-03.yaml")

# What the document adds to the examples of the requirement, and what is free text there.
ADDED = {"cloud", "from", "to", "description"}

RATING_EXAMPLE = """
{"billing_period": {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"},
 "project_id": "proj-456", "platform": "openstack",
 "line_items": [
  {"resource_type": "instance", "resource_id": "abc-123", "platform": "openstack", "description": "m1.large instance",
   "periods": [
    {"state": "active", "hours": 240, "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 18.0},
     "cost": {"vcpus": 19.20, "ram_gb": 9.60, "disk_gb": 19.20, "egress_gb": 1.62, "total": 49.62},
     "state_modifier": 1.0},
    {"state": "shutoff", "hours": 240, "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 0},
     "cost": {"vcpus": 9.60, "ram_gb": 4.80, "disk_gb": 9.60, "egress_gb": 0, "total": 24.00},
     "state_modifier": 0.5},
    {"state": "active", "hours": 264, "usage": {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "egress_gb": 22.5},
     "cost": {"vcpus": 21.12, "ram_gb": 10.56, "disk_gb": 21.12, "egress_gb": 2.03, "total": 54.83},
     "state_modifier": 1.0}],
   "total": 128.45}],
 "related_costs": [], "total": 128.45, "currency": "EUR"}
"""
GARDENER_EXAMPLE = """
{"billing_period": {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"},
 "project_id": "team-alpha", "platform": "gardener",
 "line_items": [
  {"resource_type": "shoot", "resource_id": "shoot-abc", "platform": "gardener",
   "periods": [{"state": "active", "hours": 744, "usage": {"worker_count": 3},
                "cost": {"worker_count": 223.20, "total": 223.20}, "state_modifier": 1.0}],
   "total": 223.20}],
 "related_costs": [
  {"relation_type": "infrastructure_tenant", "project_id": "shoot-abc-os-tenant", "platform": "openstack",
   "line_items": [
    {"resource_type": "instance", "resource_id": "worker-1", "platform": "openstack",
     "periods": [{"state": "active", "hours": 744, "usage": {"vcpus": 8, "ram_gb": 16, "disk_gb": 160},
                  "cost": {"vcpus": 119.04, "ram_gb": 59.52, "disk_gb": 119.04, "total": 297.60},
                  "state_modifier": 1.0}],
     "total": 297.60}],
   "total": 297.60}],
 "total": 520.80, "currency": "EUR"}
"""


def day(number: int) -> datetime:
    return datetime(2026, 3, number, tzinfo=UTC)


def record(
    resource: str,
    usage: dict[str, Any],
    state: str = "active",
    start: datetime = MARCH,
    end: datetime = APRIL,
    *,
    platform: str = "openstack",
    version: PriceVersion = VERSION,
) -> Record:
    """A usage record, rated by the shipped version."""
    resource_type, resource_id = resource.split("/", 1)
    length_us = microseconds(end - start)
    full = {"minutes": length_us // 60_000_000, "count": 1} | usage
    rating = rate(
        version, platform=platform, resource_type=resource_type, state=state, length_us=length_us, usage=full
    )
    return Record(resource_type, resource_id, state, start, end, full, rating.rates)


class Bill(NamedTuple):
    """A bill: its text, what that says, and its total."""

    text: str
    document: Any
    total: Decimal


def bill(
    own: Iterable[Record], project: ProjectRef = PROJECT, related: tuple[RelatedProject, ...] = ()
) -> Bill:
    made = build_bill(MARCH, APRIL, project, own, related, Forms(VERSION))
    return Bill(made.document, read(made.document), made.total)


def read(text: str) -> Any:
    return json.loads(text, parse_float=Decimal)


def as_in_the_requirement(value: Any) -> Any:
    """Leave out what the document adds; billing_period keeps its from and to."""
    if isinstance(value, list):
        return [as_in_the_requirement(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item if key == "billing_period" else as_in_the_requirement(item)
        for key, item in value.items()
        if key not in ADDED
    }


def powered_off() -> list[Record]:
    return [
        record("instance/abc-123", M1_LARGE | {"egress_gb": Decimal("18.0")}, "active", day(1), day(11)),
        record("instance/abc-123", M1_LARGE | {"egress_gb": 0}, "shutoff", day(11), day(21)),
        record("instance/abc-123", M1_LARGE | {"egress_gb": Decimal("22.5")}, "active", day(21), APRIL),
    ]


def worker() -> RelatedProject:
    usage = {"vcpus": 8, "ram_gb": 16, "disk_gb": 160, "flavor": "m1.xlarge"}
    return RelatedProject("infrastructure_tenant", TENANT, [record("instance/worker-1", usage)])


def shoot() -> Record:
    return record("shoot/shoot-abc", {"worker_count": 3, "machine_type": "m1.xlarge"}, platform="gardener")


class TestTheExamplesOfTheRequirement:
    def test_a_vm_powered_off_for_ten_days_costs_128_45(self) -> None:
        result = bill(powered_off())
        document = result.document
        assert as_in_the_requirement(document) == as_in_the_requirement(read(RATING_EXAMPLE))
        assert document["line_items"][0]["description"] == "m1.large instance"
        assert result.total == Decimal("128.45")

    def test_a_gardener_project_pays_for_its_infrastructure_tenant(self) -> None:
        result = bill([shoot()], TEAM, (worker(),))
        assert as_in_the_requirement(result.document) == read(GARDENER_EXAMPLE)
        assert result.total == Decimal("520.80")

    def test_keys_stand_in_the_order_of_the_requirement(self) -> None:
        document = bill(powered_off()).document
        assert [key for key in document if key != "cloud"] == list(read(RATING_EXAMPLE))
        period = as_in_the_requirement(document["line_items"][0]["periods"][0])
        assert list(period) == list(read(RATING_EXAMPLE)["line_items"][0]["periods"][0])
        assert list(period["cost"]) == ["vcpus", "ram_gb", "disk_gb", "egress_gb", "total"]

    def test_a_full_month_costs_148_80_and_egress(self) -> None:
        assert bill([record("instance/abc-123", M1_LARGE)]).total == Decimal("148.80")
        assert bill([record("instance/abc-123", M1_LARGE | {"egress_gb": 100})]).total == Decimal("157.80")

    def test_a_shelved_vm_is_listed_and_costs_nothing(self) -> None:
        result = bill([record("instance/abc-123", M1_LARGE, "shelved")])
        assert result.total == 0
        assert list(map(str, result.document["line_items"][0]["periods"][0]["cost"].values())) == ["0.00"] * 4
        assert str(result.document["line_items"][0]["periods"][0]["state_modifier"]) == "0.0"

    def test_five_minute_records_are_billed_by_the_rule(self) -> None:
        """S49: 8,928 records of 5 minutes cost 178.56, since every record rounds by itself."""
        five = timedelta(minutes=5)
        amounts = record("instance/abc-123", M1_LARGE, "active", MARCH, MARCH + five).rates
        records = [
            Record("instance", "abc-123", "active", MARCH + n * five, MARCH + (n + 1) * five, M1_LARGE, amounts)
            for n in range(8_928)
        ]
        assert records[-1].to_ts == APRIL
        assert bill(records).total == Decimal("178.56")


class TestForm:
    def test_the_cloud_says_which_of_two_projects_of_one_name_it_is(self) -> None:
        document = bill([shoot()], TEAM, (worker(),)).document
        assert document["cloud"] == "garden-eu1"
        assert document["related_costs"][0]["cloud"] == "os-prod-eu1"

    def test_a_period_says_from_when_to_when_it_goes(self) -> None:
        period = bill(powered_off()).document["line_items"][0]["periods"][1]
        assert (period["from"], period["to"]) == ("2026-03-11T00:00:00Z", "2026-03-21T00:00:00Z")

    def test_a_type_modifier_stands_where_the_version_has_a_table_of_types(self) -> None:
        volume = record("volume/vol-789", {"size_gb": 200, "type": "hdd"}, "in-use")
        document = bill([volume, *powered_off()]).document
        instance, listed = document["line_items"]
        assert "type_modifier" not in instance["periods"][0]
        period = listed["periods"][0]
        assert (str(period["type_modifier"]), str(period["state_modifier"])) == ("0.5", "1.0")

    def test_usage_without_a_price_has_no_line(self) -> None:
        result = bill([record("image/img-1", {"size_gb": Decimal("2.5")})])
        assert (result.document["line_items"], str(result.total)) == ([], "0.00")

    def test_a_resource_is_named_by_what_it_kept_all_the_time(self) -> None:
        small = M1_LARGE | {"flavor": "m1.small"}
        resized = [
            record("instance/def-456", small, start=MARCH, end=day(16)),
            record("instance/def-456", M1_LARGE, start=day(16)),
        ]
        address = record("floating_ip/fip-1", {"ip_version": 4})
        items = bill([*resized, address]).document["line_items"]
        assert [item["description"] for item in items] == ["floating_ip fip-1", "instance def-456"]
        assert items[0]["periods"][0]["usage"] == {"count": 1}

    @pytest.mark.parametrize(("seconds", "text"), [(3600, "1"), (1800, "0.5"), (60, "0.016667")])
    def test_hours_are_exact_or_rounded_to_six_decimals(self, seconds: int, text: str) -> None:
        short = record("instance/abc-123", M1_LARGE, end=MARCH + timedelta(seconds=seconds))
        assert str(bill([short]).document["line_items"][0]["periods"][0]["hours"]) == text

    def test_json_has_amounts_with_two_decimals_and_ends_with_a_newline(self) -> None:
        text = bill(powered_off()).text
        assert text.endswith("}\n")
        assert '"total": 24.00' in text
        assert '"egress_gb": 18,' not in text
        assert '"egress_gb": 18\n' in text

    def test_the_smallest_quantity_has_no_exponent(self) -> None:
        """One byte of egress, in GB."""
        text = bill([record("instance/abc-123", M1_LARGE | {"egress_gb": Decimal("1E-9")})]).text
        assert '"egress_gb": 0.000000001\n' in text

    def test_names_beyond_ascii_stay_readable(self) -> None:
        project = ProjectRef("os-prod-eu1", "büro", "openstack")
        assert '"project_id": "büro"' in bill([], project).text


class TestOrder:
    def test_the_order_of_the_rows_decides_nothing(self) -> None:
        own = [*powered_off(), record("volume/vol-1", {"size_gb": 1, "type": "ssd"}), record("instance/aaa", M1_LARGE)]
        other = RelatedProject("infrastructure_tenant", ProjectRef("os-a", "x", "openstack"), powered_off())
        expected = bill(own, PROJECT, (worker(), other)).text
        for seed in range(5):
            shuffled = [
                Record(r.resource_type, r.resource_id, r.state, r.from_ts, r.to_ts, r.usage, r.rates[::-1])
                for r in own
            ]
            Random(seed).shuffle(shuffled)
            assert bill(iter(shuffled), PROJECT, (other, worker())).text == expected

    def test_lines_go_by_resource_type_and_id_and_related_projects_by_cloud_and_id(self) -> None:
        other = RelatedProject("infrastructure_tenant", ProjectRef("a-cloud", "x", "openstack"), [])
        document = bill(
            [record("volume/a", {"size_gb": 1}), record("instance/b", M1_LARGE), record("instance/B", M1_LARGE)],
            PROJECT,
            (worker(), other),
        ).document
        assert [item["resource_id"] for item in document["line_items"]] == ["B", "b", "a"]
        assert [cost["cloud"] for cost in document["related_costs"]] == ["a-cloud", "os-prod-eu1"]


INSTANTS = st.integers(0, 31 * 86_400_000_000).map(lambda us: MARCH + timedelta(microseconds=us))
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=5)
QUANTITIES = st.one_of(st.integers(0, 10**6), st.decimals(0, 10**6, places=6))


@st.composite
def records(draw: st.DrawFn) -> Record:
    """A usage record of some resource, with any of the metrics of its type."""
    kind = draw(st.sampled_from(["instance", "volume", "object_storage"]))
    start, end = sorted([draw(INSTANTS), draw(INSTANTS)])
    usage: dict[str, Any] = draw(st.dictionaries(st.sampled_from(["flavor", "server_type"]), TEXTS))
    usage |= draw(st.fixed_dictionaries({}, optional={"type": st.sampled_from(["ssd", "hdd"])}))
    usage |= {p.metric: draw(QUANTITIES) for p in VERSION.prices_of("openstack", kind) if draw(st.booleans())}
    state = draw(st.sampled_from(["active", "shutoff", "shelved", "100 %"]))
    end = max(end, start + timedelta(microseconds=1))
    made = record(f"{kind}/{draw(TEXTS)}", usage, state, start, end)
    return replace(made, rates=draw(st.permutations(made.rates)))


@given(st.lists(records(), max_size=8, unique_by=lambda r: (r.resource_type, r.resource_id, r.from_ts)))
def test_line_items_are_byte_for_byte_what_a_json_library_writes_of_plain_decimals(found: list[Record]) -> None:
    """Of the project itself, and two levels deeper of a related one."""
    own, other = bill(found), bill([], TEAM, (RelatedProject("infrastructure_tenant", TENANT, found[::-1]),))
    expected = modelled(found, "openstack", VERSION)
    items = simplejson.dumps({"line_items": simplejson.RawJSON(expected.replace("\n", "\n  "))}, indent=2)
    assert items[2:-2] in own.text
    assert expected.replace("\n", "\n      ") in other.text
    assert own.total == other.total == sum(item["total"] for item in read(expected))
    for text in (own.text, other.text):
        assert simplejson.dumps(read(text), use_decimal=True, ensure_ascii=False, indent=2) + "\n" == text


class TestRefusals:
    def test_negative_usage_is_refused_with_its_rows(self) -> None:
        """S37: regular usage is never negative; negatives only stand in corrections."""
        wrong = [
            record("repository/app", {"storage_gb": -5}, platform="harbor"),
            record("repository/other", {"storage_gb": 1, "egress_gb": Decimal(-1)}, platform="harbor"),
        ]
        with pytest.raises(Refused, match="never negative") as caught:
            bill(wrong, ProjectRef("harbor-1", "team", "harbor"))
        assert [reason.split(":")[0] for reason in caught.value.reasons] == [
            "repository app from 2026-03-01T00",
            "repository other from 2026-03-01T00",
        ]

    def test_two_currencies_are_never_added(self) -> None:
        """Rule 25."""
        francs = Rate("vcpus", 4, Decimal(1), Decimal(1), Decimal(1), Decimal("1.00"), Decimal(1), "CHF")
        wrong = Record("instance", "abc-123", "active", MARCH, APRIL, M1_LARGE, [francs])
        with pytest.raises(InvalidInput, match=r"a bill in EUR cannot add instance abc-123 .*rated in another"):
            bill([wrong])

    def test_a_dimension_of_another_version_is_refused(self) -> None:
        odd = Rate("gpus", 4, Decimal(1), Decimal(1), Decimal(1), Decimal("1.00"), Decimal(1), "EUR")
        wrong = Record("instance", "abc-123", "active", MARCH, APRIL, {"gpus": 4}, [odd])
        with pytest.raises(InvalidInput, match="gpus is not priced by version 2026-03"):
            bill([wrong])

    def test_a_dimension_that_was_rated_twice_is_refused(self) -> None:
        full = record("instance/abc-123", M1_LARGE)
        wrong = Record("instance", "abc-123", "active", MARCH, APRIL, full.usage, [*full.rates, full.rates[0]])
        with pytest.raises(InvalidInput, match="one dimension is rated twice"):
            bill([wrong])

    def test_a_project_is_in_a_bill_once(self) -> None:
        with pytest.raises(InvalidInput, match=r"os-prod-eu1/shoot-abc-os-tenant is in the bill twice"):
            bill([], TEAM, (worker(), worker()))
