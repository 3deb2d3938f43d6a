"""What reads a whole month over HTTP: FOCUS datasets, and a draft of prices on the usage of the month."""

import csv
from collections import defaultdict
from collections.abc import Iterator
from decimal import Decimal
from io import BytesIO

import pytest
from pyarrow import parquet

from pricing.price_text import to_yaml
from tally.services.pricing import version_named
from tally.store.database import connected
from tests.golden.focus_rules import faults, from_csv
from tests.integration.api_server import Client, exact, live_api
from tests.integration.closing import House

FOCUS, WHAT_IF = "/api/v1/focus", "/api/v1/what-if"
MARCH = {"period": "2026-03"}


@pytest.fixture
def client(house: House) -> Iterator[Client]:
    with live_api(house.reporting_url, house.metering_url, provider_name="Example Cloud") as client:
        yield client


def test_charges_come_as_focus_datasets(client: Client, house: House) -> None:
    """The same rows in both formats, by the rules of FOCUS; they add up to the bills, or to the one asked for."""
    answer = client.get(FOCUS, **MARCH)
    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "text/csv; charset=utf-8")
    assert answer.headers["Content-Disposition"] == 'attachment; filename="focus-2026-03.csv"'
    lines = list(csv.DictReader(answer.text.splitlines()))
    table = parquet.read_table(BytesIO(client.get(FOCUS, **MARCH, format="parquet").content))
    rows = table.to_pylist()
    names = ("x_RatedRecordId", "BilledCost", "ListCost")  # in a CSV instants are whole seconds
    assert [tuple(from_csv(line)[name] for name in names) for line in lines] == [
        tuple(row[name] for name in names) for row in rows
    ]
    assert faults(table.column_names, rows) == []
    billed: defaultdict[str, Decimal] = defaultdict(Decimal)
    for row in rows:
        billed[row["BillingAccountId"]] += row["BilledCost"]
    assert dict(billed) == dict(house.query("select cloud || '/' || project_id, total from ledger.bills"))
    one = client.get(FOCUS, **MARCH, cloud="os-prod-eu1", project_id="p-2")
    assert list(csv.DictReader(one.text.splitlines())) == [
        line for line in lines if line["BillingAccountId"] == "os-prod-eu1/p-2"
    ]


def test_what_is_no_dataset_is_said(client: Client, house: House) -> None:
    """A correction that does not exist, half a project, a month without a run, and no provider."""
    missing = client.get(FOCUS, **MARCH, correction=1)
    assert (missing.status_code, missing.json()["detail"]) == (404, "2026-03 has no correction 1; it has 0")
    assert client.get(FOCUS, **MARCH, project_id="p-1").status_code == 400
    assert client.get(FOCUS, period="2026-01").status_code == 404
    with live_api(house.reporting_url, house.metering_url) as nameless:
        refused = nameless.get(FOCUS, **MARCH)
    assert (refused.status_code, refused.json()["reasons"]) == (409, ["set TALLY_PROVIDER_NAME"])


def test_a_draft_of_prices_is_compared(client: Client, house: House) -> None:
    """The version that holds changes nothing, whether it is named or sent; a dearer one tells who pays more."""
    with connected(house.metering_url) as metering:
        march = to_yaml(version_named(metering, "2026-03"))
    same = exact(client.post(WHAT_IF, MARCH | {"price_version": "2026-03"}))
    assert same == exact(client.post(WHAT_IF, MARCH | {"pricing": march}))
    assert same["total"]["difference"] == 0 < same["total"]["before"]
    dearer = exact(client.post(WHAT_IF, MARCH | {"pricing": march.replace(": 0.02\n", ": 0.03\n")}))
    assert (dearer["losers"], dearer["winners"]) == (2, 0)
    assert dearer["total"]["difference"] == sum(project["difference"] for project in dearer["projects"]) > 0


@pytest.mark.parametrize(
    ("draft", "status", "said"),
    [
        ({"pricing": "currency: EUR\nvalid_from: 2026-02-30\nrates: {}\n"}, 400, "the draft: line 1"),
        ({"pricing": "x: &x [*x, *x]\n"}, 400, "the draft: "),
        ({"price_version": "2027-01"}, 404, "2027-01"),
        ({}, 400, ""),
        ({"pricing": "a", "price_version": "2026-03"}, 400, ""),
    ],
    ids=["faults", "recursion", "unknown", "neither", "both"],
)
def test_what_is_no_draft_is_refused(client: Client, draft: dict[str, str], status: int, said: str) -> None:
    """With all that is wrong with it."""
    answer = client.post(WHAT_IF, MARCH | draft)
    assert answer.status_code == status, answer.text
    assert said in answer.json()["detail"]
