"""The bill document (rule 30): what stands around line items, and the same in whatever order it comes.

Line items are the database's (tests/integration/test_line_items.py); here, as a JSON library writes them.
"""

import json
from collections.abc import Iterable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import simplejson

from pricing.bill import LineItems, ProjectRef, RelatedProject, build_bill
from pricing.price_file import parse_price_version
from pricing.rating import rate
from tally.domain.errors import InvalidInput
from tally.domain.instants import microseconds
from tests.unit.pricing.bill_model import Record, line_items

ROOT = Path(__file__).parents[3]
MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
PROJECT = ProjectRef("os-prod-eu1", "proj-456", "openstack")
TEAM = ProjectRef("garden-eu1", "team-alpha", "gardener")
TENANT = ProjectRef("os-prod-eu1", "shoot-abc-os-tenant", "openstack")
OTHER = ProjectRef("a-cloud", "x", "openstack")
M1_LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
VERSION = parse_price_version((ROOT / "pricing/models/2026-03.yaml").read_text(encoding="utf-8"), "2026-03.yaml")

# What the document adds to the example of the requirement, and what is free text there.
ADDED = {"cloud", "from", "to", "description"}

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


class Made(NamedTuple):
    """A bill: its text, what that says, and its total."""

    text: str
    document: Any
    total: Decimal


def bill(own: Iterable[LineItems], project: ProjectRef = PROJECT, related: tuple[RelatedProject, ...] = ()) -> Made:
    made = build_bill(MARCH, APRIL, project, list(own), related, "EUR")
    return Made(made.document, json.loads(made.document, parse_float=Decimal), made.total)


def items(*resources: tuple[str, dict[str, Any]], platform: str = "openstack") -> list[LineItems]:
    """Of resources such as instance/abc-123, in use all month."""
    records = []
    for resource, size in resources:
        kind, name = resource.split("/", 1)
        usage = {"count": 1} | size
        length = microseconds(APRIL - MARCH)
        rated = rate(VERSION, platform=platform, resource_type=kind, state="active", length_us=length, usage=usage)
        records.append(Record(kind, name, "active", MARCH, APRIL, usage, rated.rates))
    return line_items(records, platform, VERSION)


def tenant(project: ProjectRef = TENANT) -> RelatedProject:
    size = {"vcpus": 8, "ram_gb": 16, "disk_gb": 160, "flavor": "m1.xlarge"}
    return RelatedProject("infrastructure_tenant", project, items(("instance/worker-1", size)))


def shoot() -> list[LineItems]:
    return items(("shoot/shoot-abc", {"worker_count": 3, "machine_type": "m1.xlarge"}), platform="gardener")


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


def test_a_gardener_project_pays_for_its_infrastructure_tenant() -> None:
    result, expected = bill(shoot(), TEAM, (tenant(),)), json.loads(GARDENER_EXAMPLE, parse_float=Decimal)
    assert as_in_the_requirement(result.document) == expected
    assert [key for key in result.document if key != "cloud"] == list(expected)
    assert result.total == Decimal("520.80")


def test_the_cloud_says_which_of_two_projects_of_one_name_it_is() -> None:
    document = bill(shoot(), TEAM, (tenant(),)).document
    assert document["cloud"] == "garden-eu1"
    assert document["related_costs"][0]["cloud"] == "os-prod-eu1"


def test_related_projects_go_by_cloud_and_id_in_whatever_order_they_come() -> None:
    other = RelatedProject("infrastructure_tenant", OTHER, [])
    result = bill(shoot(), TEAM, (tenant(), other))
    assert [cost["cloud"] for cost in result.document["related_costs"]] == ["a-cloud", "os-prod-eu1"]
    assert bill(shoot(), TEAM, (other, tenant())).text == result.text


def test_the_text_is_that_of_a_json_library_down_to_line_items_of_related_projects() -> None:
    """Amounts with two decimals, indentation, and a newline at the end."""
    own = items(("instance/abc-123", M1_LARGE), ("instance/def", M1_LARGE), ("volume/v", {"size_gb": 1}))
    result = bill(own, PROJECT, (tenant(), RelatedProject("infrastructure_tenant", OTHER, own)))
    written = simplejson.loads(result.text, use_decimal=True)
    assert simplejson.dumps(written, use_decimal=True, ensure_ascii=False, indent=2) + "\n" == result.text
    assert len(written["line_items"]) == 3
    assert '"total": 148.80\n' in result.text


def test_a_bill_without_line_items_comes_to_nothing() -> None:
    result = bill([])
    assert (result.document["line_items"], result.document["related_costs"], str(result.total)) == ([], [], "0.00")
    related = bill([], TEAM, (RelatedProject("infrastructure_tenant", OTHER, []),)).document["related_costs"]
    assert (related[0]["line_items"], str(related[0]["total"])) == ([], "0.00")


def test_names_beyond_ascii_stay_readable() -> None:
    project = ProjectRef("os-prod-eu1", "büro", "openstack")
    assert '"project_id": "büro"' in bill([], project).text


def test_a_project_is_in_a_bill_once() -> None:
    with pytest.raises(InvalidInput, match=r"os-prod-eu1/shoot-abc-os-tenant is in the bill twice"):
        bill([], TEAM, (tenant(), tenant()))
