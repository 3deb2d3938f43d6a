"""A price file beside the registry: every fault is told with its line, and what is forgotten is a warning."""

from collections.abc import Mapping

import pytest

from pricing.lint import lint
from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.yaml_nodes import Fault
from tally.domain.resource_type import ResourceType
from tests.conftest import REPOSITORY

SERVER = {
    "size": {
        "additionalProperties": False,
        "properties": {
            "vcpus": {"type": "integer"},
            "ram_gb": {"type": "number"},
            "flavor": {"type": "string"},
            "slot": {"type": "integer"},
            "type": {"type": "string", "enum": ["ssd", "hdd"]},
        },
    },
    "lifecycle": {"server.stop": {"effect": "update", "state": "off"}},
    "normal_states": ["running"],
    "descriptive": ["slot"],
    "counters": ["egress_gb"],
}
TYPES = {("cluster", "server"): ResourceType.from_definition("cluster", "server", 1, SERVER)}
GOOD = """\
version: "v1"
valid_from: "2026-03"
currency: EUR
pricing:
  cluster:
    server:
      dimensions:
        - {metric: vcpus, type: time_gauge, price_per_unit_hour: 0.02}
        - {metric: egress_gb, type: counter, price_per_unit: 0.09}
        - {metric: count, type: time_gauge, price_per_unit_hour: 0.001}
      state_modifiers: {"off": 0.5, unknown: 0}
      type_modifiers:
        ssd: 1.0
        hdd: 0.5
unpriced:
  cluster:
    server: [ram_gb]
"""


def faults_of(text: str, types: Mapping[tuple[str, str], ResourceType] = TYPES) -> list[Fault]:
    return list(lint(text, "prices.yaml", types).faults)


def test_a_file_in_order_has_neither_faults_nor_warnings() -> None:
    found = lint(GOOD, "prices.yaml", TYPES)
    assert (found.faults, found.warnings) == ((), ())
    assert found.version == parse_price_version(GOOD, "prices.yaml")


STRANGER = "is not in the registry of resource types; register it first"
METRICS = "known are count, egress_gb, ram_gb, slot, vcpus"


@pytest.mark.parametrize(
    ("written", "instead", "line", "text"),
    [
        ("metric: vcpus", "metric: vcpu", 8, f"cluster.server.vcpu is unknown to the registry; {METRICS}"),
        ("metric: vcpus", "metric: flavor", 8, "cluster.server.flavor is a string in the registry, not a number"),
        (
            "egress_gb, type: counter, price_per_unit",
            "egress_gb, type: time_gauge, price_per_unit_hour",
            9,
            "cluster.server.egress_gb is a counter, not a gauge over time",
        ),
        (
            "vcpus, type: time_gauge, price_per_unit_hour",
            "vcpus, type: counter, price_per_unit",
            8,
            "cluster.server.vcpus is part of the size, not a counter",
        ),
        (
            '"off": 0.5',
            "of: 0.5",
            11,
            "state 'of' of cluster.server is unknown to the registry; known are off, running, unknown",
        ),
        ("hdd:", "HDD:", 14, "type 'HDD' of cluster.server is unknown to the registry; known are ssd, hdd"),
        ("[ram_gb]", "[ram]", 17, f"unpriced cluster.server.ram is unknown to the registry; {METRICS}"),
        ("    server: [", "    disk: [", 17, f"cluster.disk {STRANGER}"),
        ("    server:\n", "    disk:\n", 6, f"cluster.disk {STRANGER}"),
    ],
)
def test_a_name_that_the_registry_does_not_know_is_a_fault_at_its_line(
    written: str, instead: str, line: int, text: str
) -> None:
    """A misspelt metric is never billed, a misspelt state silently costs full price (S42, S43)."""
    assert faults_of(GOOD.replace(written, instead, 1)) == [Fault(line, text)]


def test_faults_of_the_form_and_of_the_names_are_told_together() -> None:
    """In the order of their lines: a file is mended once."""
    text = GOOD.replace("0.02", "-0.02").replace("ssd:", "SSD:").replace("currency: EUR\n", "")
    assert [fault.line for fault in faults_of(text)] == [1, 7, 12]


@pytest.mark.parametrize("text", ["", "a: [", "- list", "version: 1\npricing: {cluster: [server]}"])
def test_what_is_no_price_file_is_said_once(text: str) -> None:
    found = lint(text, "prices.yaml", TYPES)
    assert found.version is None
    assert len(set(found.faults)) == len(found.faults) > 0


def test_a_type_of_an_open_size_takes_every_metric() -> None:
    """Where the registry takes whatever is sent, nothing is unknown."""
    opened = ResourceType.from_definition("cluster", "server", 1, {"size": {}, "normal_states": ["off"]})
    assert faults_of(GOOD, {("cluster", "server"): opened}) == []


def test_what_the_registry_measures_and_the_file_forgets_is_a_warning() -> None:
    """It would be a finding of each close, and block its finalization (S42)."""
    disk = ResourceType.from_definition("cluster", "disk", 1, {})
    text = GOOD.partition("unpriced:")[0].replace("        hdd: 0.5\n", "")
    assert lint(text, "prices.yaml", {**TYPES, ("cluster", "disk"): disk}).warnings == (
        Fault(0, "cluster.disk is neither priced nor unpriced"),
        Fault(6, "cluster.server: ram_gb is neither priced nor unpriced"),
        Fault(6, "cluster.server: type 'hdd' is not among type_modifiers, and costs full price"),
    )
    free = GOOD.partition("pricing:")[0] + "pricing: {}\nunpriced: {cluster: {server: ['*']}}\n"
    assert lint(free, "prices.yaml", TYPES).warnings == ()


def test_without_all_types_one_that_is_not_known_cannot_be_judged() -> None:
    """That is a warning: the registry of an installation may know it."""
    found = lint(GOOD, "prices.yaml", {}, all_types=False)
    assert found.faults == ()
    assert found.warnings[0] == Fault(
        6, "cluster.server does not ship with Tally; only the registry of the installation can judge it"
    )


def loaded(text: str = GOOD) -> list[PriceVersion]:
    return [parse_price_version(text, "loaded")]


def test_a_name_that_is_taken_is_a_fault_at_the_name() -> None:
    """S41: a loaded version never changes; the same content again is no fault."""
    assert lint(GOOD, "prices.yaml", TYPES, loaded=loaded()).faults == ()
    changed = lint(GOOD.replace("0.02", "0.03"), "prices.yaml", TYPES, loaded=loaded())
    assert changed.faults == (
        Fault(1, "version v1 is loaded with other content, and never changes; choose another name"),
    )


def test_a_month_that_is_taken_is_a_fault_at_the_month() -> None:
    """S40: of two versions that begin at once, neither is dropped silently."""
    (fault,) = lint(GOOD.replace("v1", "v2"), "prices.yaml", TYPES, loaded=loaded()).faults
    assert fault.line == 2
    assert fault.text.startswith("v1 and v2 both begin with 2026-03; ")


def test_the_shipped_version_is_in_order_beside_the_shipped_types() -> None:
    """And forgets nothing."""
    from tally.services.registry import shipped_types

    text = (REPOSITORY / "pricing/models/2026-03.yaml").read_text(encoding="utf-8")
    found = lint(text, "2026-03.yaml", shipped_types())
    assert (found.faults, found.warnings) == ((), ())
