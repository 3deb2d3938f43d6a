"""What the optional keys of a price file do to a month, as a billing clerk would work it out: tests/golden/prices.

Each file has a dimension of a price file, usage, and the lines that it comes to. They hold for the SQL of the close and
for the reference in plain Python.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
import simplejson
import yaml

from pricing.documents.focus import Dataset, charge_row
from pricing.documents.focus_columns import NAMES
from pricing.documents.focus_names import shipped_names
from pricing.model import Price, PriceVersion
from pricing.month import MonthRecord, rate_month
from pricing.price_file import parse_price_version
from pricing.terms import TierMode
from tally.domain.charge import Charge
from tally.domain.period import BillingPeriod
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.golden.focus_rules import faults
from tests.integration.rating_by_hand import ends, make_tables, rated

CASES = sorted((Path(__file__).parent / "prices").glob("*.yaml"))
Line = tuple[str, datetime, Decimal, Decimal, Decimal]  # resource, from, price, exact, billed


@pytest.fixture(scope="module")
def session(server_url: str, metering_template: str) -> Iterator[Connection]:
    """A session with the tables that rating reads."""
    with fresh_database(server_url, metering_template) as url, connected(url) as metering:
        make_tables(metering)
        yield metering


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_month_comes_to_the_lines_that_a_clerk_would_write(session: Connection, file: Path) -> None:
    """By SQL and by the reference, in exact amounts and in cents."""
    # Read as texts: YAML's own numbers are binary floats.
    case = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    version, records = prices(case), usage(case)
    metric = case["dimension"]["metric"]
    by_sql = [one[metric][:3] for one in rated(session, version, records)]
    by_reference = [(one.price, one.amount, one.amount_exact) for rating in rate_month(version, records)
                    for one in rating.rates]
    expected = [line(text) for text in case["lines"]]
    for found in (by_sql, by_reference):
        assert [
            (record.resource_id, record.from_ts, price, exact, amount)
            for record, (price, amount, exact) in zip(records, found, strict=True)
        ] == expected


MARCH = BillingPeriod.parse("2026-03")
DATASET = Dataset(
    "Example Cloud", "Example Cloud", "Example Cloud", UUID(int=1), None, MARCH.start, MARCH.end, MARCH.start,
    MARCH.end, shipped_names(), {}, {}, lambda _: None,
)  # fmt: skip
FOCUS_CASES = [file for file in CASES if "\nfocus:" in file.read_text(encoding="utf-8")]
@pytest.mark.parametrize("file", FOCUS_CASES, ids=lambda file: file.stem)
def test_the_same_lines_as_charges_of_focus(session: Connection, file: Path) -> None:
    """Consumed and priced quantity, unit price and exact cost, beside what is billed; no rule of FOCUS is broken."""
    case = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    version, records = prices(case), usage(case)
    (price,) = version.prices
    rows = [
        dict(zip(NAMES, charge_row(charge(record, price, *one[price.metric]), DATASET), strict=True))
        for record, one in zip(records, rated(session, version, records), strict=True)
    ]
    names = ("ConsumedQuantity", "PricingQuantity", "ListUnitPrice", "ListCost", "BilledCost")
    found = [(row["ResourceId"], row["ChargePeriodStart"], *(row[name] for name in names)) for row in rows]
    assert found == [focus_line(text) for text in case["focus"]]
    assert faults(NAMES, rows) == []


def charge(
    record: MonthRecord, price: Price, begins_with: Decimal, amount: Decimal, exact: Decimal, basis: Any
) -> Charge:
    """A record with its rating, as the ledger has it."""
    graduated = bool(price.terms and price.terms.tiers and price.terms.tiers.mode is TierMode.GRADUATED)
    quantity = Decimal(record.usage[price.metric])
    return Charge(
        record.cloud, record.project_id, record.cloud, record.project_id, record.platform, record.resource_type,
        record.resource_id, None, record.state, None, record.from_ts, ends(record), price.metric, str(price.formula),
        graduated, (basis or {}).get("microseconds"), quantity, begins_with, Decimal(1), Decimal(1), amount, exact,
        "EUR", "v", UUID(int=1), UUID(int=1), 1,
    )  # fmt: skip


def focus_line(text: str) -> tuple[Any, ...]:
    """A line of a case: the columns of the test, one after the other."""
    resource, begin, *numbers = (part.strip() for part in text.split("|"))
    return f"h/server/{resource}", instant(begin), *map(Decimal, numbers)


def prices(case: dict[str, Any]) -> PriceVersion:
    """A version with the dimension of a case and no other."""
    kind = {"dimensions": [case["dimension"]]}
    if "state_modifiers" in case:
        kind["state_modifiers"] = case["state_modifiers"]
    content = {"version": "v", "valid_from": "2026-03", "currency": "EUR", "pricing": {"hetzner": {"server": kind}}}
    return parse_price_version(simplejson.dumps(content), "the prices of the case")


def usage(case: dict[str, Any]) -> list[MonthRecord]:
    """The records of a case; one that does not begin where the former of its resource has ended begins a life."""
    records: list[MonthRecord] = []
    lives: dict[str, tuple[int, datetime]] = {}
    for text in case["usage"]:
        resource, project, begin, end, state, quantity = (part.strip() for part in text.split("|"))
        from_ts, to_ts = instant(begin), instant(end)
        life, former_end = lives.get(resource, (0, None))
        life += former_end != from_ts
        lives[resource] = life, to_ts
        said = {case["dimension"]["metric"]: Decimal(quantity)}
        place = ("h", "hetzner", "server", resource, project, life, from_ts)
        records.append(MonthRecord(*place, (to_ts - from_ts) // timedelta(microseconds=1), state, said))
    return records


def line(text: str) -> Line:
    """A line of the bill."""
    resource, begin, price, exact, billed = (part.strip() for part in text.split("|"))
    return resource, instant(begin), Decimal(price), Decimal(exact), Decimal(billed)


def instant(text: str) -> datetime:
    """An instant in UTC."""
    return datetime.fromisoformat(text).replace(tzinfo=UTC)
