"""The file of counter sources is read exactly, or refused with everything that is wrong with it."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
import yaml

from tally.domain.counter import CounterSource, parse_unit, series_key, windows
from tally.domain.errors import InvalidInput
from tally.domain.resource_type import ResourceType
from tally.services.counter_sources import check_against_registry, parse_counter_sources, read_counter_sources
from tally.services.registry import Registry

PAGE = Path(__file__).parents[3] / "docs/reference/counters.md"
SMALL = """
traffic:
  platform: hetzner
  resource_type: server
  metric: egress_gb
  selector: hcloud_outgoing_bytes
  clouds: [hetzner-main]
  labels: {resource_id: server_id}
  unit: 0.000000001
"""
REGISTRY = Registry(
    1,
    {
        ("hetzner", "server"): ResourceType.from_definition("hetzner", "server", 1, {"counters": ["egress_gb"]}),
        ("hetzner", "volume"): ResourceType.from_definition("hetzner", "volume", 1, {}),
    },
)


def faults_of(text: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        parse_counter_sources(text, "counters.yaml")
    return str(caught.value)


def test_the_documented_example_is_a_source() -> None:
    """Each key of the page means what the page says."""
    example = PAGE.read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    assert parse_counter_sources(example, "counters.md") == (
        CounterSource(
            name="nova-egress",
            platform="openstack",
            resource_type="instance",
            metric="egress_gb",
            selector='ceilometer_network_outgoing_bytes{job="otel"}',
            clouds=("os-prod-eu1", "os-prod-eu2"),
            resource_label="resource_id",
            unit=Decimal("1e-9"),
            cloud_label="cloud",
            replica_labels=("prometheus_replica",),
            states=("active",),
            max_gap=timedelta(minutes=30),
        ),
    )
    keys = {key.strip(" `") for line in PAGE.read_text(encoding="utf-8").splitlines() if line.startswith("| `")
            for key in line.split("|")[1].split(",")}  # fmt: skip
    assert keys == set(yaml.safe_load(example)["nova-egress"])


def test_a_small_source_leaves_the_rest_to_the_installation() -> None:
    """One cloud needs no label; units may be decimal numbers, which are never binary floats."""
    (source,) = parse_counter_sources(SMALL, "counters.yaml")
    assert (source.cloud_label, source.states, source.max_gap, source.replica_labels) == (None, None, None, ())
    assert source.unit == Decimal("0.000000001")


def test_all_faults_are_told_together() -> None:
    """With their lines."""
    text = """
one:
  platform: openstack
  resource_type: instance
  metric: egress_gb
  selector: x
  clouds: [a, a, b]
  labels: {resource_id: id-with-dash}
  unit: 1/3
  max_gap_seconds: soon
  replicas: []
  unknown: 1
two:
  platform: off
  labels: {resource_id: server, cloud: zone}
  replicas: [zone]
three: text
"""
    said = faults_of(text)
    for fault in (
        "counters.yaml: line 3: one has several clouds and no labels/cloud",
        "clouds has 'a' twice",
        "line 8: one: labels/resource_id is 'id-with-dash', which is no name of a label",
        "line 9: one: unit: 1/3 is no decimal of at most 60 digits, so that it would be rounded",
        "line 10: one: max_gap_seconds is no whole number from 1 to 3456000",
        "one: replicas is empty; leave it out",
        "one has the unknown key 'unknown'",
        "two lacks resource_type, metric, selector, clouds, unit",
        "two: the label zone tells replicas apart",
        "three is not a mapping",
    ):
        assert fault in said, fault


@pytest.mark.parametrize("text", ["", "[]", "{}", "a: [", "a: {}\na: {}"])
def test_what_is_no_file_of_sources_is_refused(text: str) -> None:
    """An empty file too: whoever names one means to meter something."""
    assert faults_of(text).startswith("counters.yaml: ")


def test_a_file_that_is_not_there_is_told_by_its_setting(tmp_path: Path) -> None:
    """And by its path."""
    with pytest.raises(InvalidInput, match=r"TALLY_COUNTER_SOURCES: .*missing.yaml cannot be read: No such file"):
        read_counter_sources(tmp_path / "missing.yaml")


def test_a_metric_has_to_be_a_counter_of_its_resource_type() -> None:
    """Else a size could hold the same name, and one would overwrite the other."""
    (good,) = parse_counter_sources(SMALL, "counters.yaml")
    check_against_registry([good], REGISTRY)
    texts = (("server", "shelf"), ("egress_gb", "vcpus"), ("server\n", "volume\n"))
    bad = [parse_counter_sources(SMALL.replace(*text), "counters.yaml")[0] for text in texts]
    with pytest.raises(InvalidInput) as caught:
        check_against_registry(bad, REGISTRY)
    for fault in ("hetzner.shelf is no resource type", "vcpus is no counter of hetzner.server; it has egress_gb",
                  "egress_gb is no counter of hetzner.volume; it has none"):  # fmt: skip
        assert fault in str(caught.value)


@pytest.mark.parametrize(
    ("text", "unit"),
    [("1/1000000000", "1e-9"), ("1/1073741824", "9.31322574615478515625E-10"), ("0.5", "0.5"), ("3/2", "1.5"),
     ("8", "8")],
)  # fmt: skip
def test_a_unit_is_an_exact_decimal(text: str, unit: str) -> None:
    """Fractions of bytes are: their denominators are powers of two and five."""
    assert parse_unit(text) == Decimal(unit)


@pytest.mark.parametrize("text", ["0", "-1", "1/0", "x", "1e9", "nan", "inf", "1/3", "1/" + "2" * 200, ""])
def test_what_is_no_exact_decimal_is_no_unit(text: str) -> None:
    """A rounded one would make every quantity wrong."""
    with pytest.raises(InvalidInput):
        parse_unit(text)


def test_a_span_is_fetched_in_days() -> None:
    """The first and the last one cut; together they are the span."""
    start, end = datetime(2026, 2, 28, 23, tzinfo=UTC), datetime(2026, 3, 2, 0, 30, tzinfo=UTC)
    days = list(windows(start, end))
    assert [(a.isoformat(" ", "minutes"), b.isoformat(" ", "minutes")) for a, b in days] == [
        ("2026-02-28 23:00+00:00", "2026-03-01 00:00+00:00"),
        ("2026-03-01 00:00+00:00", "2026-03-02 00:00+00:00"),
        ("2026-03-02 00:00+00:00", "2026-03-02 00:30+00:00"),
    ]
    assert list(windows(start, start)) == []


def test_replicas_are_told_apart_by_their_labels_alone() -> None:
    """Whatever the order of labels, and though a value may look like two."""
    one = series_key({"id": "a", "replica": "0"}, ["replica"])
    other = series_key({"replica": "1", "id": "a"}, ["replica"])
    assert one[0] == other[0]
    assert one[1] != other[1]
    assert series_key({"a": "b', 'c': 'd"}, []) != series_key({"a": "b", "c": "d"}, [])
