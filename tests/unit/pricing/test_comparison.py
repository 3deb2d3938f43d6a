"""Two price versions side by side, and a version as a file."""

from decimal import Decimal

import pytest

from pricing.comparison import PriceChange, compare, entries
from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.price_text import to_yaml
from tests.conftest import REPOSITORY

BEFORE = """\
version: "2026-03"
valid_from: "2026-03"
currency: EUR
pricing:
  openstack:
    instance:
      dimensions:
        - {metric: vcpus, type: time_gauge, price_per_unit_hour: 0.02}
        - {metric: ram_gb, type: time_gauge, price_per_unit_hour: 0.003}
        - {metric: egress_gb, type: counter, price_per_unit: 0}
      state_modifiers: {"off": 0.5}
unpriced:
  openstack:
    instance: [disk_gb]
"""


def version(*changes: tuple[str, str]) -> PriceVersion:
    text = BEFORE
    for written, instead in changes:
        assert written in text
        text = text.replace(written, instead)
    return parse_price_version(text, "version")


def changed(where: str, before: str, after: str, difference: str, percent: str | None) -> PriceChange:
    share = None if percent is None else Decimal(percent)
    return PriceChange("changed", where, Decimal(before), Decimal(after), Decimal(difference), share)


def test_what_is_dearer_or_cheaper_is_told_with_its_share() -> None:
    """Rounded half up, away from zero; of a price of zero there is no share."""
    after = version(("hour: 0.02", "hour: 0.025"), ("0.003", "0.002"), ("unit: 0}", "unit: 0.09}"))
    assert compare(version(), after) == [
        changed("openstack.instance.vcpus.price_per_unit_hour", "0.02", "0.025", "0.005", "25.00"),
        changed("openstack.instance.ram_gb.price_per_unit_hour", "0.003", "0.002", "-0.001", "-33.33"),
        changed("openstack.instance.egress_gb.price_per_unit", "0", "0.09", "0.09", None),
    ]


def test_what_is_added_and_removed_is_told_by_its_keys() -> None:
    after = version(
        ("        - {metric: ram_gb, type: time_gauge, price_per_unit_hour: 0.003}\n", ""),
        ('{"off": 0.5}', '{"off": 0.5, shelved: 0}'),
        ("[disk_gb]", "[disk_gb, ram_gb]"),
    )
    assert [(change.kind, change.where, change.before, change.after) for change in compare(version(), after)] == [
        ("removed", "openstack.instance.ram_gb.type", "time_gauge", None),
        ("removed", "openstack.instance.ram_gb.price_per_unit_hour", Decimal("0.003"), None),
        ("added", "openstack.instance.state_modifiers.shelved", None, Decimal(0)),
        ("added", "unpriced.openstack.instance.ram_gb", None, "free"),
    ]


def test_prices_in_two_currencies_have_no_difference() -> None:
    """Rule 25: they are shown side by side."""
    changes = compare(version(), version(("EUR", "CHF"), ("hour: 0.02", "hour: 0.03")))
    assert {(change.where, change.difference) for change in changes} == {
        ("openstack.instance.vcpus.price_per_unit_hour", None),
        ("currency", None),
    }


def test_the_name_of_a_version_is_no_difference_and_the_order_of_dimensions_is() -> None:
    """Bills show dimensions in that order; it is part of the hash."""
    assert compare(version(), version(('"2026-03"\nvalid_f', '"2026-07"\nvalid_f'))) == []
    lines = BEFORE.splitlines(keepends=True)
    lines[7], lines[8] = lines[8], lines[7]
    (change,) = compare(version(), parse_price_version("".join(lines), "version"))
    assert change.where == "openstack.instance.order of dimensions"
    assert (change.before, change.after) == ("vcpus, ram_gb, egress_gb", "ram_gb, vcpus, egress_gb")


@pytest.mark.parametrize("text", [BEFORE, (REPOSITORY / "pricing/models/2026-03.yaml").read_text(encoding="utf-8")])
def test_a_version_that_is_written_as_a_file_reads_back_as_the_same(text: str) -> None:
    """With the same hash: decimals stay decimals, `off` stays a text."""
    original = parse_price_version(text, "original")
    written = to_yaml(original)
    again = parse_price_version(written, "written")
    assert (again, again.content_hash) == (original, original.content_hash)
    assert "'off': 0.5" in written


def test_every_entry_of_a_version_is_listed_by_its_key() -> None:
    assert list(entries(version()))[:3] == [
        ("openstack.instance.vcpus.type", "time_gauge"),
        ("openstack.instance.vcpus.price_per_unit_hour", Decimal("0.02")),
        ("openstack.instance.ram_gb.type", "time_gauge"),
    ]
    assert ("unpriced.openstack.instance.disk_gb", "free") in list(entries(version()))
