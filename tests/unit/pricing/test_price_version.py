"""Price versions: how a file is read and refused, and which month gets which version (rules 24 to 27)."""

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import simplejson
import yaml

from pricing.model import Formula, PriceVersion
from pricing.price_file import parse_price_version
from tally.domain.errors import InvalidInput
from tally.domain.resource_type import ResourceType

ROOT = Path(__file__).parents[3]
SHIPPED = (ROOT / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")
SMALL = """\
version: "{version}"
valid_from: "{valid_from}"
{valid_to}currency: EUR
pricing:
  openstack:
    instance:
      dimensions:
        - {{metric: vcpus, type: time_gauge, price_per_unit_hour: 0.02}}
"""


def small(version: str = "v1", valid_from: str = "2026-03", valid_to: str = "") -> PriceVersion:
    line = f"valid_to: {valid_to}\n" if valid_to else ""
    return parse_price_version(SMALL.format(version=version, valid_from=valid_from, valid_to=line), "small.yaml")


@pytest.fixture(scope="module")
def shipped() -> PriceVersion:
    return parse_price_version(SHIPPED, "2026-03.yaml")


def faults_of(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_price_version(text, "prices.yaml")
    message = str(caught.value)
    assert message.startswith("prices.yaml: ")
    assert "\n" not in message
    return message.removeprefix("prices.yaml: ")


class TestTheShippedVersion:
    def test_it_holds_every_price_of_the_requirement(self, shipped: PriceVersion) -> None:
        assert {(p.platform, p.resource_type, p.metric, p.formula, p.price) for p in shipped.prices} == {
            ("openstack", "instance", "vcpus", "time_gauge", Decimal("0.02")),
            ("openstack", "instance", "ram_gb", "time_gauge", Decimal("0.005")),
            ("openstack", "instance", "disk_gb", "time_gauge", Decimal("0.001")),
            ("openstack", "instance", "egress_gb", "counter", Decimal("0.09")),
            ("openstack", "volume", "size_gb", "time_gauge", Decimal("0.0001")),
            ("openstack", "floating_ip", "count", "time_gauge", Decimal("0.005")),
            ("hetzner", "server", "vcpus", "time_gauge", Decimal("0.015")),
            ("hetzner", "server", "ram_gb", "time_gauge", Decimal("0.004")),
            ("hetzner", "server", "disk_gb", "time_gauge", Decimal("0.0008")),
            ("stackit", "server", "vcpus", "time_gauge", Decimal("0.025")),
            ("stackit", "server", "ram_gb", "time_gauge", Decimal("0.006")),
            ("stackit", "server", "disk_gb", "time_gauge", Decimal("0.0012")),
            ("ionos", "server", "cores", "time_gauge", Decimal("0.022")),
            ("ionos", "server", "ram_gb", "time_gauge", Decimal("0.005")),
            ("gardener", "shoot", "worker_count", "time_gauge", Decimal("0.10")),
            ("harbor", "repository", "storage_gb", "time_gauge", Decimal("0.00005")),
            ("harbor", "repository", "egress_gb", "counter", Decimal("0.12")),
            ("harbor", "repository", "pulls", "counter", Decimal(0)),
        }

    def test_it_holds_every_modifier_of_the_requirement(self, shipped: PriceVersion) -> None:
        assert {(m.platform, m.resource_type, m.kind, m.value, m.modifier) for m in shipped.modifiers} == {
            ("openstack", "instance", "state", "shelved", Decimal(0)),
            ("openstack", "instance", "state", "shutoff", Decimal("0.5")),
            ("openstack", "volume", "type", "ssd", Decimal(1)),
            ("openstack", "volume", "type", "hdd", Decimal("0.5")),
            ("hetzner", "server", "state", "off", Decimal("0.5")),
            ("gardener", "shoot", "state", "hibernated", Decimal(0)),
        }

    def test_it_holds_from_march_2026_in_euros(self, shipped: PriceVersion) -> None:
        assert (shipped.version, shipped.valid_from, shipped.valid_to) == ("2026-03", date(2026, 3, 1), None)
        assert shipped.currency == "EUR"

    def test_it_is_never_edited(self, shipped: PriceVersion) -> None:
        """Rule 24: installations have loaded this content; whoever sees this fail writes a new version instead."""
        assert shipped.content_hash == "8de5b708e774e4ee498130a2918695df33cb4c597ecf08d738f4a878f4def8b2"

    def test_prices_keep_the_order_of_the_file(self, shipped: PriceVersion) -> None:
        metrics = [price.metric for price in shipped.prices_of("openstack", "instance")]
        assert metrics == ["vcpus", "ram_gb", "disk_gb", "egress_gb"]

    def test_every_metric_of_every_registered_type_is_priced_or_free_on_purpose(self, shipped: PriceVersion) -> None:
        """S42, rule 26: nothing is silently free."""
        forgotten = [
            f"{kind.platform}.{kind.resource_type}.{metric}"
            for kind in registered_types()
            for metric in measured(kind)
            if metric not in {price.metric for price in shipped.prices_of(kind.platform, kind.resource_type)}
            and not shipped.is_unpriced(kind.platform, kind.resource_type, metric)
        ]
        assert forgotten == []

    def test_it_prices_only_what_the_registry_knows(self, shipped: PriceVersion) -> None:
        known = {(kind.platform, kind.resource_type): {*measured(kind), "count"} for kind in registered_types()}
        assert [p for p in shipped.prices if p.metric not in known[p.platform, p.resource_type]] == []
        assert [free for free in shipped.unpriced if (free.platform, free.resource_type) not in known] == []


def registered_types() -> list[ResourceType]:
    result = []
    for file in sorted((ROOT / "tally" / "providers").glob("*/resource_types.yaml")):
        for name, definition in yaml.safe_load(file.read_text(encoding="utf-8")).items():
            result.append(ResourceType.from_definition(file.parent.name, name, 1, definition))
    assert len(result) > 10
    return result


def measured(kind: ResourceType) -> set[str]:
    properties: dict[str, dict[str, Any]] = kind.size.get("properties", {})
    numeric = {name for name, schema in properties.items() if schema.get("type") in ("integer", "number")}
    return (numeric - kind.descriptive) | kind.counters


class TestContent:
    def test_the_hash_is_of_the_content_not_of_its_formatting(self) -> None:
        same = parse_price_version(
            "# a comment\n{pricing: {openstack: {instance: {dimensions: [{price_per_unit_hour: '0.020',"
            " type: time_gauge, metric: vcpus}]}}}, currency: 'EUR', valid_from: 2026-03-01T00:00:00Z, version: v1}",
            "same.yaml",
        )
        assert same.content_hash == small().content_hash

    @pytest.mark.parametrize(
        ("old", "new"),
        [
            ("0.02", "0.03"),
            ("2026-03", "2026-04"),
            ("EUR", "CHF"),
            ("vcpus", "cores"),
            ("currency", "valid_to: 2026-09\ncurrency"),
        ],
    )
    def test_every_change_of_content_changes_the_hash(self, old: str, new: str) -> None:
        text = SMALL.format(version="v1", valid_from="2026-03", valid_to="")
        assert parse_price_version(text.replace(old, new), "changed.yaml").content_hash != small().content_hash

    def test_the_content_as_json_reads_back_as_the_same_version(self, shipped: PriceVersion) -> None:
        text = simplejson.dumps(shipped.content, use_decimal=True)
        again = parse_price_version(text, "content")
        assert again == shipped
        assert again.content_hash == shipped.content_hash

    def test_a_price_is_the_exact_decimal_of_the_file(self) -> None:
        """0.1 as a binary float would be 0.1000000000000000055..."""
        assert small().prices[0].price == Decimal("0.02")
        assert str(parse_price_version(SHIPPED.replace("0.00005", "0.1"), "x").prices[1].price) == "0.1"

    def test_the_state_off_is_a_text_and_not_the_boolean_of_yaml(self, shipped: PriceVersion) -> None:
        assert shipped.modifier("hetzner", "server", "state", "off") == Decimal("0.5")


class TestModifiers:
    def test_a_type_of_another_spelling_is_not_listed_instead_of_free(self, shipped: PriceVersion) -> None:
        """S43: SSD is neither ssd nor a silent 0; there is a table, it lacks the value, and rating reports it."""
        assert shipped.has_table("openstack", "volume", "type")
        assert shipped.modifier("openstack", "volume", "type", "SSD") is None
        assert shipped.modifier("openstack", "volume", "type", "ssd") == 1

    def test_two_spellings_in_one_table_are_refused(self) -> None:
        """S43: one of the two would silently be meant for the other."""
        text = SHIPPED.replace("        hdd: 0.5", "        SSD: 0.5")
        assert "'SSD' and 'ssd' differ in case only" in faults_of(text)


class TestFaults:
    def test_all_faults_are_reported_together_with_their_lines(self) -> None:
        message = faults_of(
            "version: v1\n"
            "valid_from: 2026-03-02\n"
            "colour: red\n"
            "pricing:\n"
            "  openstack:\n"
            "    instance:\n"
            "      dimensions:\n"
            "        - {metric: vcpus, type: time_gauge, price_per_unit_hour: -0.02}\n"
            "        - {metric: ram_gb, type: per_fortnight, price_per_unit_hour: 1}\n"
        )
        assert message == (
            "line 1: the version lacks currency; "
            "line 2: valid_from is '2026-03-02'; write the first of a month: 2026-03-01, or say with mid_period what "
            "becomes of that month; "
            "line 3: the version has the unknown key 'colour'; "
            "known are version, valid_from, currency, pricing, valid_to, mid_period, unpriced; "
            "line 8: price_per_unit_hour of openstack.instance.vcpus is -0.02; it is never negative; "
            "line 9: type of openstack.instance.ram_gb is 'per_fortnight'; known are time_gauge, counter"
        )

    @pytest.mark.parametrize(
        ("old", "new", "fault"),
        [
            ('currency: "EUR"', "", "the version lacks currency"),
            ('currency: "EUR"', "currency: euro", "currency: 'euro' is not a currency"),
            ('currency: "EUR"', "currency: EUR\ncurrency: USD", "line 5: the version has the key 'currency' twice"),
            ('version: "2026-03"', "version:", "line 2: version is not a text"),
            ('version: "2026-03"', f"version: {'ä' * 257}", "line 2: version is longer than 512 bytes"),
            ("ssd: 1.0", f"{'x' * 513}: 1.0", "a key of type_modifiers of openstack.volume is longer than 512 bytes"),
            ('"2026-03-01T00:00:00Z"', '"2026-03-01T00:00:00+01:00"', "write the first of a month"),
            ('"2026-03-01T00:00:00Z"', '"2026-13-01"', "write the first of a month"),
            ('"2026-03-01T00:00:00Z"', '"2026-03-01"\nvalid_to: 2026-03', "valid_to is not after valid_from"),
            ("ssd: 1.0", "ssd: -1", "'ssd' in type_modifiers of openstack.volume is -1; it is never negative"),
            ("ssd: 1.0", "hdd: 1.0", "type_modifiers of openstack.volume has the key 'hdd' twice"),
            ("ssd: 1.0", "ssd: 1e-3", "is '1e-3'; write a decimal number"),
            ("ssd: 1.0", "ssd: .inf", "is '.inf'; write a decimal number"),
            ("ssd: 1.0", "ssd: .nan", "is '.nan'; write a decimal number"),
            ("ssd: 1.0", "ssd: 1_0", "is '1_0'; write a decimal number"),
            ("ssd: 1.0", "ssd: [1]", "is not a text"),
            ('metric: "disk_gb"', 'metric: "vcpus"', "openstack.instance prices 'vcpus' twice"),
            ('metric: "count"', 'metric: "minutes"', "floating_ip.minutes cannot be a time_gauge"),
            ('type: "counter" # egress', 'type: "time_gauge" # egress', "lacks price_per_unit_hour"),
            ("price_per_unit: 0.09", "price: 0.09", "has the unknown key 'price'"),
            ("      type_modifiers:", "      typ_modifiers:", "openstack.volume has the unknown key 'typ_modifiers'"),
            ('["ingress_gb"]', '["vcpus"]', "openstack.instance.vcpus is both priced and unpriced"),
            ('["ingress_gb"]', '["*"]', "openstack.instance is priced, so it cannot be unpriced as a whole"),
            ('["ingress_gb"]', "[]", "unpriced.openstack.instance is empty"),
            ('["ingress_gb"]', '["a", "a"]', "unpriced.openstack.instance lists 'a' twice"),
            ('["ingress_gb"]', "all", "unpriced.openstack.instance is not a list"),
        ],
    )
    def test_a_fault_is_named(self, old: str, new: str, fault: str) -> None:
        assert old in SHIPPED
        assert fault in faults_of(SHIPPED.replace(old, new, 1))

    def test_a_negative_price_is_refused(self) -> None:
        """S37: a quantity is never negative, and neither is what makes it money."""
        assert "is -0.02; it is never negative" in faults_of(SHIPPED.replace("0.02", "-0.02", 1))

    def test_existence_is_priced_over_time_and_never_by_record(self) -> None:
        """A counter on count would charge a resource once more for every split."""
        counter = "        - {metric: count, type: counter, price_per_unit: 1}\n"
        text = SMALL.format(version="v1", valid_from="2026-03", valid_to="") + counter
        assert "openstack.instance.count cannot be a counter" in faults_of(text)

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            ("", "it is empty"),
            ("# nothing", "it is empty"),
            ("- a list", "line 1: the version is not a mapping"),
            ("a: [1", "line 1: not YAML"),
            ("a: 1\n---\nb: 2", "not YAML"),
            ("a: *b", "line 1: not YAML"),
            ("a: \x07", "not YAML"),
            ("[" * 5000, "not YAML"),
        ],
    )
    def test_what_is_no_version_file_is_refused(self, text: str, fault: str) -> None:
        assert fault in faults_of(text)


class TestMonths:
    @pytest.mark.parametrize("text", ["2026-03", "2026-03-01", "2026-03-01T00:00:00Z", "2026-03-01T00:00:00+00:00"])
    def test_valid_from_names_a_month(self, text: str) -> None:
        assert small(valid_from=text).valid_from == date(2026, 3, 1)



def test_a_formula_is_one_of_two() -> None:
    assert [str(formula) for formula in Formula] == ["time_gauge", "counter"]
