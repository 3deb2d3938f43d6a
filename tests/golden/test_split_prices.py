"""What becomes of a month in which prices change, as a billing clerk would work it out: tests/golden/split.

Each file has the prices with the instants from which they hold, usage, and the lines that it comes to. They hold for
the SQL of the close and for the reference in plain Python.
"""

from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import simplejson
import yaml

from pricing.month import MonthRecord, rate_pieces
from pricing.price_file import parse_price_version
from tally.store.database import Connection
from tests.golden.test_price_terms import instant, session  # noqa: F401 - the fixture
from tests.integration.rating_by_hand import Increment, Part, ends, pieces, rated_in_parts

CASES = sorted((Path(__file__).parent / "split").glob("*.yaml"))
OTHER = {"metric": "other", "type": "counter", "price_per_unit": "0"}  # a version that does not price the metric
Line = tuple[str, datetime, datetime, Decimal, Decimal, Decimal]  # resource, from, to, price, exact, billed


@pytest.mark.parametrize("file", CASES, ids=lambda file: file.stem)
def test_a_month_comes_to_the_lines_that_a_clerk_would_write(session: Connection, file: Path) -> None:  # noqa: F811
    """By SQL and by the reference, in exact amounts and in cents, line by line."""
    # Read as texts: YAML's own numbers are binary floats.
    case = yaml.load(file.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)  # noqa: S506
    parts, (records, increments) = prices(case), usage(case)
    by_sql = [
        (records[no].resource_id, begin, end, price, exact, amount)
        for (no, _, begin), (_, end, _, _, price, amount, exact, _) in sorted(
            rated_in_parts(session, parts, records, increments).items()
        )
    ]
    cut = [(version, piece) for _, _, version, piece in pieces(parts, records, increments)]
    by_reference = [
        (piece.resource_id, piece.from_ts, ends(piece), rate.price, rate.amount_exact, rate.amount)
        for (_, piece), rating in zip(cut, rate_pieces(cut), strict=True)
        for rate in rating.rates
    ]
    assert by_sql == by_reference == [line(text) for text in case["lines"]]


def prices(case: dict[str, Any]) -> list[Part]:
    """The versions of a case, each with its part of March."""
    begins = [*(instant(version["from"]) for version in case["prices"]), instant("2026-04-01 00:00")]
    return [
        (parse_price_version(simplejson.dumps(content(case, version)), version["from"]), *span)
        for version, span in zip(case["prices"], pairwise(begins), strict=True)
    ]


def content(case: dict[str, Any], version: dict[str, Any]) -> dict[str, Any]:
    """A price file."""
    kind = {"dimensions": [version.get("dimension", OTHER)]}
    if "state_modifiers" in case:
        kind["state_modifiers"] = case["state_modifiers"]
    pricing = {"hetzner": {"server": kind}}
    return {
        "version": version["from"], "valid_from": version["from"][:10], "mid_period": "split", "currency": "EUR",
        "pricing": pricing,
    }  # fmt: skip


def usage(case: dict[str, Any]) -> tuple[list[MonthRecord], list[Increment]]:
    """The records of a case, one for each resource, and what was counted of them."""
    metric = next(version["dimension"]["metric"] for version in case["prices"] if "dimension" in version)
    records, increments = [], []
    for text in case["usage"]:
        resource, project, begin, end, state, *quantity = (part.strip() for part in text.split("|"))
        said = {metric: Decimal(*quantity)} if quantity else {}
        length_us = (instant(end) - instant(begin)) // timedelta(microseconds=1)
        key = ("h", "hetzner", "server", resource, project, 1, instant(begin))
        records.append(MonthRecord(*key, length_us, state, said))
    places = {record.resource_id: no for no, record in enumerate(records)}
    for text in case.get("counted", ()):
        resource, at, gained = (part.strip() for part in text.split("|"))
        increments.append(Increment(places[resource], instant(at), metric, Decimal(gained)))
        said = records[places[resource]].usage
        said[metric] = said.get(metric, Decimal(0)) + Decimal(gained)  # type: ignore[index]
    return records, increments


def line(text: str) -> Line:
    """A line of the bill."""
    resource, begin, end, price, exact, billed = (part.strip() for part in text.split("|"))
    return resource, instant(begin), instant(end), Decimal(price), Decimal(exact), Decimal(billed)
