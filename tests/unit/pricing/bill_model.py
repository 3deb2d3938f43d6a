"""Line items once more, the plain way: objects of decimals that a JSON library writes.

What the database writes is compared with it, and bills are made of it where there is no database.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import simplejson

from pricing.bill import LineItems
from pricing.model import Formula, PriceVersion
from pricing.money import hours, plain, total
from pricing.rating import Rate
from tally.domain.instants import format_instant

NAMES = ("flavor", "server_type", "machine_type", "type")


@dataclass(frozen=True)
class Record:
    """A usage record with its rates."""

    resource_type: str
    resource_id: str
    state: str
    from_ts: datetime
    to_ts: datetime
    usage: Mapping[str, Any]
    rates: Sequence[Rate]


def line_items(records: Iterable[Record], platform: str, version: PriceVersion) -> list[LineItems]:
    """The line items as a bill takes them."""
    by_type: dict[str, list[Record]] = {}
    for record in records:
        if record.rates:
            by_type.setdefault(record.resource_type, []).append(record)
    return [_of_one_type(kind, modelled(by_type[kind], platform, version)) for kind in sorted(by_type)]


def _of_one_type(resource_type: str, items: str) -> LineItems:
    text = items.removeprefix("[\n  ").removesuffix("\n]").replace("\n", "\n  ")
    read = simplejson.loads(items, use_decimal=True)
    return LineItems(resource_type, text, total(item["total"] for item in read))


def modelled(records: Iterable[Record], platform: str, version: PriceVersion) -> str:
    """The line items as JSON."""
    by_resource: dict[tuple[str, str], list[Record]] = {}
    for record in records:
        if record.rates:
            by_resource.setdefault((record.resource_type, record.resource_id), []).append(record)
    items = [_item(by_resource[key], platform, version) for key in sorted(by_resource)]
    return str(simplejson.dumps(items, use_decimal=True, ensure_ascii=False, indent=2))


def _item(records: list[Record], platform: str, version: PriceVersion) -> dict[str, Any]:
    periods = [_period(r, platform, version) for r in sorted(records, key=lambda r: (r.from_ts, r.to_ts))]
    kind, name = records[0].resource_type, records[0].resource_id
    kept = [{str(record.usage.get(attribute) or "") for record in records} for attribute in NAMES]
    called = next((f"{min(values)} {kind}" for values in kept if len(values) == 1 and values != {""}), f"{kind} {name}")
    return {
        "resource_type": kind, "resource_id": name, "platform": platform, "description": called, "periods": periods,
        "total": total(period["cost"]["total"] for period in periods),
    }


def _period(record: Record, platform: str, version: PriceVersion) -> dict[str, Any]:
    formulas = version.formulas(platform, record.resource_type)
    rates = {rate.dimension: rate for rate in record.rates}
    listed = [rates[metric] for metric in formulas if metric in rates]
    gauges = [rate for rate in listed if formulas[rate.dimension] is Formula.TIME_GAUGE]
    costs = {rate.dimension: total([rate.amount]) for rate in listed}
    period = {
        "state": record.state,
        "from": format_instant(record.from_ts),
        "to": format_instant(record.to_ts),
        "hours": hours((record.to_ts - record.from_ts) // timedelta(microseconds=1)),
        "usage": {rate.dimension: plain(rate.quantity) for rate in listed},
        "cost": {**costs, "total": total(costs.values())},
        "state_modifier": _shown(gauges[0].state_modifier if gauges else Decimal(1)),
    }
    if version.has_table(platform, record.resource_type, "type"):
        period["type_modifier"] = _shown(gauges[0].type_modifier if gauges else Decimal(1))
    return period


def _shown(modifier: Decimal) -> Decimal:
    text = f"{plain(modifier):f}"
    return Decimal(text if "." in text else text + ".0")
