"""Line items once more, the plain way: objects of decimals that a JSON library writes. What bills are compared with."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import simplejson

from pricing.model import Formula, PriceVersion
from pricing.money import hours, plain, total
from pricing.rating import Rate
from tally.domain.instants import format_instant, microseconds

NAMES = ("flavor", "server_type", "machine_type", "type")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Record:
    """A usage record with its rates; it is also what a bill reads of it, in the words of UsageCosts."""

    resource_type: str
    resource_id: str
    state: str
    from_ts: datetime
    to_ts: datetime
    usage: Mapping[str, Any]
    rates: Sequence[Rate]
    currency: str = "EUR"

    @property
    def from_us(self) -> int:
        return microseconds(self.from_ts - EPOCH)

    @property
    def to_us(self) -> int:
        return microseconds(self.to_ts - EPOCH)

    @property
    def names(self) -> list[str | None]:
        return [self.usage.get(name) for name in NAMES]

    @property
    def dimensions(self) -> list[str] | None:
        return [rate.dimension for rate in self.rates] or None

    @property
    def quantities(self) -> str:
        return " ".join(f"{plain(rate.quantity):f}" for rate in self.rates)

    @property
    def amounts(self) -> str:
        return " ".join(f"{rate.amount:.2f}" for rate in self.rates)

    @property
    def cents(self) -> int:
        return int(sum(rate.amount for rate in self.rates) * 100)

    @property
    def state_modifier(self) -> str:
        return f"{plain(self._modifier('state_modifier')):f}"

    @property
    def type_modifier(self) -> str:
        return f"{plain(self._modifier('type_modifier')):f}"

    @property
    def in_currency(self) -> bool:
        return {rate.currency for rate in self.rates} <= {self.currency}

    def _modifier(self, name: str) -> Decimal:
        return next((getattr(rate, name) for rate in self.rates if getattr(rate, name) != 1), Decimal(1))


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
