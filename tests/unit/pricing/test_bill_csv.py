"""A bill as CSV: what a spreadsheet makes of it."""

import csv
from decimal import Decimal
from io import StringIO

import pytest

from pricing.documents.bill_csv import bill_csv
from pricing.documents.differences import differences
from tests.unit.pricing.bills_of_month import bill, discount, item


def lines(document: dict[str, object] | None) -> list[dict[str, str]]:
    """The lines of a CSV by their columns."""
    return list(csv.DictReader(StringIO(bill_csv(document, "2026-03"), newline="")))


@pytest.mark.parametrize("name", ["=1+1", "+1", "-1", "@sum", "\t=1", "\r=1"])
def test_a_name_is_no_formula(name: str) -> None:
    """What a platform calls a resource is never worked out."""
    (line,) = lines(bill(item(name)))
    assert line["resource_id"] == "'" + name


def test_an_amount_is_a_number_even_below_zero() -> None:
    """A discount has no apostrophe; it is named by whom it is agreed with where nothing else is said."""
    document = bill(item(), adjustments=[discount("-0.74"), discount("0.70", type="kickback")])
    (_, line) = lines(document)
    assert (line["kind"], line["amount"]) == ("discount", "-0.74")
    assert line["description"] == "Discount agreed with Partner Corp"


def test_a_line_names_the_version_that_prices_it() -> None:
    """That of the month, or of the part of it that the line is of."""
    (whole,) = lines(bill(item()))
    split = item()
    split["periods"][0]["price_version"] = "raised"
    (part, adjustment) = lines(bill(split, adjustments=[discount("-0.74")]))
    assert [line["price_version"] for line in (whole, part, adjustment)] == ["2026-03", "raised", ""]


def test_no_bill_is_a_heading_alone() -> None:
    """It adds up to nothing."""
    assert lines(None) == []


def test_differences_are_of_what_costs_something_else() -> None:
    """By resource, and of adjustments by what they are."""
    before = bill(item(), item("gone"), adjustments=[discount("-1.49")])
    after = bill(item(), item("new", total=Decimal("1.00")), adjustments=[discount("-0.84")])
    assert [(line.what, line.change) for line in differences(before, after)] == [
        ("volume gone", Decimal("-7.44")),
        ("Discount agreed with Partner Corp (all)", Decimal("0.65")),
        ("volume new", Decimal("1.00")),
    ]
