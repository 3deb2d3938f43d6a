"""The worked examples of the requirement, closed for real: usage records and bills equal the printed ones.

The files in expected/ are the requirement's own documents, numbers and all. Three bills that it only describes (a full
month, some days shelved, a month shelved) and the totals of the other projects were computed by hand.
"""

from decimal import Decimal

import pytest

from tests.golden.closed_month import USAGE_EXAMPLES, ClosedMonth, expected
from tests.golden.comparison import differences

BILLS = {
    "bill-powered-off": "os-prod-eu2/proj-456",
    "bill-full-month": "os-prod-eu2/proj-full-month",
    "bill-shelved-days": "os-prod-eu2/proj-shelved-days",
    "bill-shelved-month": "os-prod-eu2/proj-shelved-month",
    "bill-shoot-with-infrastructure": "gardener-eu2/team-alpha",
}


@pytest.mark.parametrize(("name", "cloud"), USAGE_EXAMPLES.items(), ids=USAGE_EXAMPLES)
def test_usage_records_are_those_of_the_requirement(closed_month: ClosedMonth, name: str, cloud: str) -> None:
    """Rules 10, 14 and 15: splits, minutes, gauges and counters of each worked example."""
    document = expected(name)
    resources = {record["resource_id"] for record in document["usage_records"]}
    assert differences(document, closed_month.usage_document(cloud, document["project_id"], resources)) == []


def test_every_usage_record_counts_one(closed_month: ClosedMonth) -> None:
    """Rule 15: `count`, which the requirement omits for brevity, is 1."""
    assert {record["usage"]["count"] for record in closed_month.usage_records} == {1}


@pytest.mark.parametrize(("name", "project"), BILLS.items(), ids=BILLS)
def test_bills_are_those_of_the_requirement(closed_month: ClosedMonth, name: str, project: str) -> None:
    """Rules 23, 28 and 30: hours, usage, cost of each dimension, totals and related costs."""
    assert differences(expected(name), closed_month.bills[project]) == []


def test_a_full_month_costs_148_80_eur_plus_egress(closed_month: ClosedMonth) -> None:
    """744 hours of m1.large at full price; the traffic stands beside it."""
    bill = closed_month.bills["os-prod-eu2/proj-full-month"]
    [period] = bill["line_items"][0]["periods"]
    assert bill["total"] - period["cost"]["egress_gb"] == Decimal("148.80")


def test_each_project_is_billed_in_exactly_one_place(closed_month: ClosedMonth) -> None:
    """Rule 28: the infrastructure tenant has no bill of its own; all other projects have one, with the right total."""
    totals = {project: bill["total"] for project, bill in closed_month.bills.items()}
    assert totals == expected("totals")
    assert "os-prod-eu3/shoot-abc-os-tenant" not in totals


def test_the_month_is_finalized_as_the_same_in_every_version(closed_month: ClosedMonth) -> None:
    """Hash for hash, as `tally verify` compares it.

    Whoever fails here has changed what the month comes to, how its records are hashed, or a character of its bills.
    Months that earlier versions have finalized are then told as tampered with, and a correction writes bills anew in
    which nothing has changed. Let it be as it was: what is new is written only where there is any of it.
    """
    assert closed_month.outputs_hash == "57aacebe84fce4cee6b6bd1b2410c7953cede86a6ab4d3832ce1bad0ea8ba716"
    assert closed_month.documents_hash == "3db106b142de18f311af6748f60cc98ca1da5f4db589669fcca8d66ef7f20b60"
