"""A bill as CSV: one line per metric of each period, and one per discount and surcharge. They add up to its total."""

import csv
from collections.abc import Iterator, Mapping
from decimal import Decimal
from io import StringIO
from typing import Any

from pricing.documents.adjustments import billed_adjustments
from pricing.documents.spreadsheet import plain_text

COLUMNS = (
    "period_from", "period_to", "billed_cloud", "billed_project", "kind", "relation_type", "cloud", "project",
    "platform", "resource_type", "resource_id", "description", "state", "from", "to", "hours", "metric", "quantity",
    "state_modifier", "type_modifier", "price_version", "scope", "amount", "currency",
)  # fmt: skip


def bill_csv(document: Mapping[str, Any] | None, price_version: str) -> str:
    """Write a bill as CSV with a heading; None is no bill, and has no lines.

    ``price_version`` prices what the document names none of: all of a month in which prices do not change.
    """
    stream = StringIO(newline="")
    writer = csv.DictWriter(stream, COLUMNS, restval="")
    writer.writeheader()
    for line in _lines(document, price_version) if document else ():
        writer.writerow({name: _field(value) for name, value in line.items()})
    return stream.getvalue()


def _lines(document: Mapping[str, Any], price_version: str) -> Iterator[dict[str, Any]]:
    common = {
        "period_from": document["billing_period"]["from"],
        "period_to": document["billing_period"]["to"],
        "billed_cloud": document["cloud"],
        "billed_project": document["project_id"],
        "currency": document["currency"],
    }
    for part in (document, *document["related_costs"]):
        owner = {name: part[name] for name in ("cloud", "platform")} | {"project": part["project_id"]}
        owner["relation_type"] = part.get("relation_type", "")
        for line in _usage_lines(part["line_items"]):
            yield common | owner | {"price_version": price_version} | line
    for adjustment in billed_adjustments(document):
        yield common | {
            "kind": adjustment.type,
            "description": adjustment.text,
            "scope": adjustment.scope,
            "amount": adjustment.amount,
        }


def _usage_lines(items: list[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    for item in items:
        for period in item["periods"]:
            for metric, quantity in period["usage"].items():
                yield {
                    "kind": "usage",
                    **{name: item[name] for name in ("resource_type", "resource_id", "description")},
                    **{name: period[name] for name in ("state", "from", "to", "hours", "state_modifier")},
                    **{name: period[name] for name in ("type_modifier", "price_version") if name in period},
                    "metric": metric,
                    "quantity": quantity,
                    "amount": period["cost"][metric],
                }


def _field(value: Any) -> str:
    return f"{value:f}" if isinstance(value, Decimal) else plain_text(str(value))
