"""What is handed on of a month, as a clerk reads it: bills as CSV and pages, charges as FOCUS, and a correction.

The files in expected/ can be checked by hand: an m1.large costs 4 x 0.02 + 8 x 0.005 + 80 x 0.001 = 0.20 an hour, and
half of it while it is off; ssd 0.0001 per GB and hour; egress 0.09 per GB. Of the 145.19 of `shop`, 126.47 are for the
instance: 5 % more are 6.3235, 10 % less of 151.5135 are 15.15135, and 145.19 + 6.32 - 15.15 = 136.36 are billed. `gone`
is billed with 148.80 - 14.88 = 133.92, then with 93.60 - 9.36 = 84.24.
"""

import csv
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet, types

from tally.domain.billing_document import DocumentKey
from tally.domain.errors import Refused
from tally.services.focus_export import adding_up
from tally.store.metering.charges import WrittenTotal
from tests.conftest import REPOSITORY
from tests.golden.closed_month import EXPECTED, read_json
from tests.golden.focus_rules import Row, csv_faults, faults, from_csv
from tests.golden.handed_month import HandedMonth

MARCH, CORRECTION = "focus-2026-03", "focus-2026-03-correction-1"
VALIDATOR = shutil.which("focus-validator", path=f"{REPOSITORY}/.tools/focus-validator/bin:{os.environ['PATH']}")
CLERKS_COLUMNS = (
    "ChargeCategory", "SubAccountId", "ResourceId", "SkuMeter", "x_State", "x_Adjustment", "ChargePeriodStart",
    "ChargePeriodEnd", "PricingQuantity", "PricingUnit", "ListUnitPrice", "ListCost", "BilledCost",
)  # fmt: skip
# Rules that focus-validator takes for broken, and why they are not: those of columns that Tally does not have, those
# that hold for nobody who issues invoices, and those of a third party that is paid.
NO_FAULTS = ("PricingCurrency", "CostAndUsage-D-04", "CostAndUsage-D-05", "InvoiceId-C-004", "ConsumedQuantity-C-00")


def lines(handed: HandedMonth, name: str) -> list[dict[str, str]]:
    """The lines of a FOCUS file as they are written."""
    with (handed.folder / "focus-csv" / f"{name}.csv").open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


def rows(handed: HandedMonth, name: str) -> list[Row]:
    """The rows of a FOCUS file in Parquet."""
    table = parquet.read_table(handed.folder / "focus-parquet" / f"{name}.parquet")
    found: list[Row] = table.to_pylist()
    return found


def shown(found: Sequence[Mapping[str, str]], columns: Sequence[str]) -> str:
    """Some columns of a file, as a CSV."""
    return "".join(",".join(line) + "\n" for line in [columns, *([row[name] for name in columns] for row in found)])


def totals(found: Sequence[Row]) -> dict[str, Decimal]:
    """What each billing account is billed by a file."""
    sums: dict[str, Decimal] = {}
    for row in found:
        sums[row["BillingAccountId"]] = sums.get(row["BillingAccountId"], Decimal(0)) + row["BilledCost"]
    return sums


@pytest.mark.parametrize("project", ["shop", "gone"])
def test_a_bill_as_csv(handed: HandedMonth, project: str) -> None:
    """A line for each metric of each period; of `gone` what counts after the correction."""
    written = (handed.folder / "csv" / "os-prod-eu1" / f"{project}.csv").read_text(encoding="utf-8")
    assert written == (EXPECTED / f"bill-{project}.csv").read_text(encoding="utf-8")


@pytest.mark.parametrize("project", ["shop", "gone"])
def test_the_amounts_of_a_csv_add_up_to_the_bill(handed: HandedMonth, project: str) -> None:
    """To the cent."""
    bill = read_json((handed.folder / "json" / "os-prod-eu1" / f"{project}.json").read_text(encoding="utf-8"))
    with (handed.folder / "csv" / "os-prod-eu1" / f"{project}.csv").open(encoding="utf-8", newline="") as stream:
        assert sum(Decimal(line["amount"]) for line in csv.DictReader(stream)) == bill["total"]


def test_a_page_shows_what_is_billed_and_what_was_corrected(handed: HandedMonth) -> None:
    """S55 on the page of its bill: 55.20 less for the instance, 5.52 less of a discount, 49.68 less in all."""
    page = (handed.folder / "html" / "os-prod-eu1" / "gone.html").read_text(encoding="utf-8")
    changes = ("\u221255.20", "+5.52", "\u221249.68")
    for text in ("Bill for March 2026", "84.24 EUR", "Credit note 1 of 12 Apr 2026 08:30", "133.92", *changes):
        assert text in page
    for run, sign in ((handed.regular, 1), (handed.correction, -1), (handed.correction, 1)):
        assert DocumentKey("2026-03", run.id, "os-prod-eu1", "gone", sign).number in page
    other = (handed.folder / "html" / "os-prod-eu1" / "shop.html").read_text(encoding="utf-8")
    assert "136.36 EUR" in other
    assert "Credit note" not in other
    assert "Billed with it: os-prod-eu1/shop-archive" in other
    assert "kickback" not in other.lower()


def test_charges_as_focus(handed: HandedMonth) -> None:
    """One row a rated record; 743 h 40 min of 100 GB are 74366.6666666667 GB-Hours."""
    written = shown(lines(handed, MARCH), CLERKS_COLUMNS)
    assert written == (EXPECTED / "focus-march.csv").read_text(encoding="utf-8")


def test_s56_a_correction_is_issued_in_april_for_march(handed: HandedMonth) -> None:
    """Charge period March, billing period April, ChargeClass Correction, x_CorrectsRunId; usage of -55.20."""
    found = lines(handed, CORRECTION)
    columns = ("BillingPeriodStart", "BillingPeriodEnd", "ChargeClass", "x_Sign", "ChargeCategory", *CLERKS_COLUMNS[3:])
    assert shown(found, columns) == (EXPECTED / "focus-correction.csv").read_text(encoding="utf-8")
    assert {row["x_CorrectsRunId"] for row in found} == {str(handed.regular.id)}
    assert {row["x_RunId"] for row in found} == {str(handed.correction.id)}
    usage = [Decimal(row["BilledCost"]) for row in found if row["ChargeCategory"] == "Usage"]
    assert sum(usage) == Decimal("-55.20")


def test_what_is_billed_adds_up_account_by_account(handed: HandedMonth) -> None:
    """The files of the month and of its correction come to the bills that count."""
    assert totals(rows(handed, MARCH)) == {"os-prod-eu1/gone": Decimal("133.92"), "os-prod-eu1/shop": Decimal("136.36")}
    assert totals(rows(handed, CORRECTION)) == {"os-prod-eu1/gone": Decimal("-49.68")}


@pytest.mark.parametrize("name", [MARCH, CORRECTION])
def test_the_rules_of_focus_hold(handed: HandedMonth, name: str) -> None:
    """In both formats, which hold the same."""
    written = lines(handed, name)
    found = rows(handed, name)
    assert faults(list(found[0]), found) == []
    assert csv_faults(written) == []
    assert [from_csv(line) for line in written] == found


def test_parquet_has_exact_types(handed: HandedMonth) -> None:
    """Money is decimal128, time is microseconds in UTC, and what is never null says so."""
    schema = parquet.read_schema(handed.folder / "focus-parquet" / f"{MARCH}.parquet")
    assert types.is_decimal128(schema.field("ListCost").type)
    assert str(schema.field("ChargePeriodStart").type) == "timestamp[us, tz=UTC]"
    assert not schema.field("BilledCost").nullable
    assert schema.field("ChargeClass").nullable
    assert not [field for field in schema if types.is_floating(field.type)]


def test_charges_go_by_the_number_of_their_invoice(handed: HandedMonth) -> None:
    """That which is delivered for the same run and project; another for a correction."""
    ids = {(row["x_RunId"], row["InvoiceId"]) for name in (MARCH, CORRECTION) for row in rows(handed, name)}
    runs = {"gone": (handed.regular, handed.correction), "shop": (handed.regular,)}
    assert ids == {
        (str(run.id), DocumentKey("2026-03", run.id, "os-prod-eu1", project, 1).number)
        for project, several in runs.items()
        for run in several
    }


def test_tags_and_names_are_those_of_the_projects_when_the_month_was_closed(handed: HandedMonth) -> None:
    """Metadata are tags; a project without a name goes by its id. What has changed since is told by no correction."""
    found = {row["SubAccountId"]: row for row in rows(handed, MARCH)}
    assert found["os-prod-eu1/shop"]["Tags"] == '{"cost_centre": "4711", "production": true}'
    assert found["os-prod-eu1/shop-archive"]["BillingAccountName"] == "Web Shop"
    assert found["os-prod-eu1/shop-archive"]["SubAccountName"] == "Web Shop, archive"
    corrected = rows(handed, CORRECTION)
    gone = [found["os-prod-eu1/gone"], *(row for row in corrected if row["SubAccountId"])]
    assert {(row["SubAccountName"], row["BillingAccountName"], row["Tags"]) for row in gone} == {("gone", "gone", None)}
    assert "Web Shop" in (handed.folder / "html" / "os-prod-eu1" / "shop.html").read_text(encoding="utf-8")


BROKEN: Sequence[tuple[str, Any, str]] = (
    ("ListCost", Decimal("59.5200000000001"), "ListUnitPrice x PricingQuantity is not ListCost"),
    ("BillingAccountId", None, "BillingAccountId is null"),
    ("ChargeCategory", "usage", "ChargeCategory is usage"),
    ("ServiceSubcategory", "Block Storage", "Block Storage is no subcategory of Compute"),
    ("PricingUnit", None, "PricingUnit and PricingQuantity do not go together"),
    ("PricingUnit", "gigabyte-hours", "PricingUnit is gigabyte-hours"),
    ("ChargeClass", "Correction", "a charge of another month, and no other, is a correction"),
    ("Tags", '{"a": ["b"]}', "Tags holds more than keys and values"),
)


@pytest.mark.parametrize(("column", "value", "fault"), BROKEN, ids=[fault for _, _, fault in BROKEN])
def test_a_broken_rule_is_noticed(handed: HandedMonth, column: str, value: Any, fault: str) -> None:
    """The rules are no rubber stamp."""
    (row, *_) = rows(handed, MARCH)
    assert f"row 1: {fault}" in faults(list(row), [{**row, column: value}])


def test_charges_that_do_not_add_up_to_the_bills_are_refused(handed: HandedMonth) -> None:
    """A charge that got lost is named by its account, and the file never takes its place."""
    table = parquet.read_table(handed.folder / "focus-parquet" / f"{MARCH}.parquet")
    (_, *rest) = [tuple(row.values()) for row in table.to_pylist()]
    bills = {
        ("os-prod-eu1", "gone"): WrittenTotal(Decimal("133.92"), 1),
        ("os-prod-eu1", "shop"): WrittenTotal(Decimal("136.36"), 1),
    }
    with pytest.raises(Refused, match=r"do not add up to the bills: os-prod-eu1/gone lacks 59\.52$"):
        list(adding_up(rest, bills))


@pytest.mark.skipif(VALIDATOR is None, reason="make validator makes it, where there is Python 3.12")
@pytest.mark.parametrize("name", [MARCH, CORRECTION])
def test_focus_validator_finds_no_other_faults(handed: HandedMonth, name: str) -> None:
    """The validator of the FinOps foundation, where it was made or is on the PATH."""
    program = Path(str(VALIDATOR)).resolve()
    criteria = (
        "ACCOUNT_NAMING_SUPPORTED,NEGOTIATED_PRICING_SUPPORTED,PUBLIC_PRICE_LIST_SUPPORTED,USAGE_MEASUREMENT_SUPPORTED,"
        "UNIT_PRICING_SUPPORTED,SUB_ACCOUNT_SUPPORTED,BILLING_BASED_ON_PROVISIONED_RESOURCES_SUPPORTED,"
        "RESOURCE_TYPE_ASSIGNMENT_SUPPORTED,TAGGING_SUPPORTED"
    )
    (home,) = program.parents[1].glob("lib/python*/site-packages")  # it looks for its files from there
    done = subprocess.run(
        [program, "--data-file", handed.folder / "focus-csv" / f"{name}.csv", "--validate-version", "1.2",
         "--focus-dataset", "CostAndUsage", "--block-download", "--applicability-criteria", criteria],
        cwd=home, capture_output=True, text=True, check=True, timeout=300,
    )  # fmt: skip
    failed = [line.split()[1] for line in done.stdout.splitlines() if ": FAIL " in line]
    assert "Pass:" in done.stdout
    assert [rule for rule in failed if not rule.startswith(NO_FAULTS)] == []
