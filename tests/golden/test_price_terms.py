"""What the optional keys of a price file do to a month, as a billing clerk would work it out: tests/golden/prices.

Each file has a dimension of a price file, usage, and the lines that it comes to. They hold for the SQL of the close and
for the reference in plain Python.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import simplejson
import yaml

from pricing.model import PriceVersion
from pricing.month import MonthRecord, rate_month
from pricing.price_file import parse_price_version
from tally.store.database import Connection, connected
from tests.conftest import fresh_database
from tests.integration.rating_by_hand import make_tables, rated

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
