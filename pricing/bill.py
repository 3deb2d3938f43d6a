"""The bill of one project and one period as a JSON document (rule 30; its form: docs/adr/0003-bill-document.md).

It arranges and adds what has been rated, and rates nothing itself; adjustments are adjustments.py's. Which project is
billed where is decided by tally.domain.graph; who reads the rows and stores the document, by tally.services.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import simplejson

from pricing.adjustments import Adjusted, Applied, Term, apply
from pricing.model import Formula, PriceVersion
from pricing.money import hours, plain, total
from pricing.rating import FULL_PRICE, Rate
from tally.domain.errors import InvalidInput, Refused
from tally.domain.instants import format_instant, microseconds

Document = dict[str, Any]

# What a resource is called after, if it kept it for all of the period.
_NAMING_ATTRIBUTES = ("flavor", "server_type", "machine_type", "type")


@dataclass(frozen=True, slots=True, order=True)
class ProjectRef:
    """A project: external ids are only unique within a cloud."""

    cloud: str
    external_id: str
    platform: str


@dataclass(frozen=True, slots=True)
class UsageWithRates:
    """One usage record of a project, and what its dimensions cost."""

    resource_type: str
    resource_id: str
    state: str
    from_ts: datetime
    to_ts: datetime
    usage: Mapping[str, Any]
    rates: Sequence[Rate]


@dataclass(frozen=True, slots=True)
class RelatedProject:
    """A project that is billed inside another one's bill, with the type of the relation that attributes it."""

    relation_type: str
    project: ProjectRef
    records: Iterable[UsageWithRates]


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill: the document, and its total and its adjustments again for the ledger."""

    document: Document
    total: Decimal
    adjustments: tuple[Applied, ...] = ()


def build_bill(
    period_from: datetime,
    period_to: datetime,
    project: ProjectRef,
    own_records: Iterable[UsageWithRates],
    related: Sequence[RelatedProject],
    version: PriceVersion,
    terms: Sequence[Term] = (),
) -> Bill:
    """Build the bill of a project, whatever order the records and the terms of its adjustments come in.

    Raises:
        Refused: if regular usage or its cost is negative, naming the rows.
        InvalidInput: if a project comes twice, a record was rated in another currency or by other prices.
    """
    _check_once([project, *(other.project for other in related)])
    document: Document = {
        "billing_period": {"from": format_instant(period_from), "to": format_instant(period_to)},
        "project_id": project.external_id,
        "platform": project.platform,
        "cloud": project.cloud,
        "line_items": _line_items(own_records, project, version),
        "related_costs": [_related_cost(other, version) for other in sorted(related, key=lambda other: other.project)],
    }
    adjusted = apply(_costs_by_type(document), terms)
    if adjusted.lines:
        document |= _adjustments(adjusted, version.currency)
    return Bill(document | {"total": adjusted.net, "currency": version.currency}, adjusted.net, adjusted.lines)


def build_cancellation(
    period_from: datetime,
    period_to: datetime,
    project: ProjectRef,
    cancelled_total: Decimal,
    currency: str,
    run_id: str,
    document_hash: str,
) -> Document:
    """Build the document that takes back an issued bill, named by the run that wrote it and the hash of its text."""
    return {
        "billing_period": {"from": format_instant(period_from), "to": format_instant(period_to)},
        "project_id": project.external_id,
        "platform": project.platform,
        "cloud": project.cloud,
        "cancels": {"run_id": run_id, "document_hash": document_hash},
        "line_items": [],
        "related_costs": [],
        "total": -cancelled_total,
        "currency": currency,
    }


def to_json(document: Document) -> str:
    """Write a document: one text per document, amounts with 2 decimals, keys in their order, a newline at the end."""
    return simplejson.dumps(document, use_decimal=True, ensure_ascii=False, indent=2) + "\n"


def _adjustments(adjusted: Adjusted, currency: str) -> Document:
    """Make what stands between the costs and the total: named as in the requirement, by the currency."""
    unit = currency.lower()
    return {
        f"base_cost_{unit}": adjusted.base,
        "adjustments": [_adjustment(line, unit) for line in adjusted.lines],
        f"net_cost_{unit}": adjusted.net,
        f"kickback_{unit}": adjusted.kickback,
    }


def _adjustment(line: Applied, unit: str) -> Document:
    """Make one line: what is agreed, with whom, what its rate is of, and what it comes to."""
    term, agreed = line.term, line.term.adjustment
    return {
        "type": str(agreed.type),
        "relation_type": term.relation_type,
        "relation_target": term.target_name,
        "relation_id": str(term.relation_id),
        **({"description": agreed.description} if agreed.description else {}),
        "scope": agreed.scope,
        "rate": plain(agreed.rate),
        f"base_{unit}": line.base,
        f"amount_{unit}": line.amount,
    }


def _costs_by_type(document: Document) -> dict[str, Decimal]:
    """Add up line items, related ones included, by platform.resource_type."""
    costs: defaultdict[str, list[Decimal]] = defaultdict(list)
    for items in (document["line_items"], *(related["line_items"] for related in document["related_costs"])):
        for item in items:
            costs[f"{item['platform']}.{item['resource_type']}"].append(item["total"])
    return {kind: total(amounts) for kind, amounts in costs.items()}


def _related_cost(related: RelatedProject, version: PriceVersion) -> Document:
    line_items = _line_items(related.records, related.project, version)
    return {
        "relation_type": related.relation_type,
        "project_id": related.project.external_id,
        "platform": related.project.platform,
        "cloud": related.project.cloud,
        "line_items": line_items,
        "total": _sum_of_totals(line_items),
    }


def _line_items(records: Iterable[UsageWithRates], project: ProjectRef, version: PriceVersion) -> list[Document]:
    """Make one line item per resource that has a price, by resource type and id."""
    by_resource: defaultdict[tuple[str, str], list[UsageWithRates]] = defaultdict(list)
    for record in records:
        if _shown(record):
            by_resource[record.resource_type, record.resource_id].append(record)
    _check_no_negative(project, [record for records in by_resource.values() for record in records])
    return [_line_item(by_resource[resource], project.platform, version) for resource in sorted(by_resource)]


def _line_item(records: Sequence[UsageWithRates], platform: str, version: PriceVersion) -> Document:
    ordered = sorted(records, key=lambda record: (record.from_ts, record.to_ts))
    periods = [_period(record, platform, version) for record in ordered]
    return {
        "resource_type": ordered[0].resource_type,
        "resource_id": ordered[0].resource_id,
        "platform": platform,
        "description": _description(ordered),
        "periods": periods,
        "total": total(period["cost"]["total"] for period in periods),
    }


def _period(record: UsageWithRates, platform: str, version: PriceVersion) -> Document:
    formulas = version.formulas(platform, record.resource_type)
    rates = _in_price_order(record, formulas, version)
    gauges = [rate for rate in rates if formulas[rate.dimension] is Formula.TIME_GAUGE]
    costs = {rate.dimension: total([rate.amount]) for rate in rates}
    period = {
        "state": record.state,
        "from": format_instant(record.from_ts),
        "to": format_instant(record.to_ts),
        "hours": hours(microseconds(record.to_ts - record.from_ts)),
        "usage": {rate.dimension: plain(rate.quantity) for rate in rates},
        "cost": {**costs, "total": total(costs.values())},
        "state_modifier": _modifier(gauges[0].state_modifier if gauges else FULL_PRICE),
    }
    if version.has_table(platform, record.resource_type, "type"):
        period["type_modifier"] = _modifier(gauges[0].type_modifier if gauges else FULL_PRICE)
    return period


def _shown(record: UsageWithRates) -> list[Rate]:
    """Leave out the counters that a record lacks: they were rated as zero (rule 27)."""
    usage = record.usage
    return [rate for rate in record.rates if rate.dimension in usage or rate.amount]


def _in_price_order(record: UsageWithRates, formulas: Mapping[str, Formula], version: PriceVersion) -> list[Rate]:
    """Order what is shown as the version lists it."""
    shown = _shown(record)
    rates = {rate.dimension: rate for rate in shown}
    faults = [f"{metric} is not priced by version {version.version}" for metric in sorted(rates.keys() - formulas)]
    faults += [f"{rate.dimension} is rated in {rate.currency}" for rate in shown if rate.currency != version.currency]
    if len(rates) < len(shown):
        faults.append("one dimension is rated twice")
    if faults:
        where = f"{record.resource_type} {record.resource_id} from {format_instant(record.from_ts)}"
        raise InvalidInput(f"a bill in {version.currency} cannot add {where}: {'; '.join(faults)}")
    return [rates[metric] for metric in formulas if metric in rates]


def _description(records: Sequence[UsageWithRates]) -> str:
    """Name a resource by the first attribute that it kept throughout, else by its id."""
    kind = records[0].resource_type
    for attribute in _NAMING_ATTRIBUTES:
        values = {str(record.usage.get(attribute) or "") for record in records}
        if len(values) == 1 and values != {""}:
            return f"{values.pop()} {kind}"
    return f"{kind} {records[0].resource_id}"


def _modifier(value: Decimal) -> Decimal:
    """Write a modifier with at least one decimal, as 1.0 and 0.25."""
    text = f"{plain(value):f}"
    return Decimal(text if "." in text else text + ".0")


def _sum_of_totals(parts: Iterable[Document]) -> Decimal:
    return total(part["total"] for part in parts)


def _check_once(projects: Sequence[ProjectRef]) -> None:
    seen = set()
    for project in projects:
        key = (project.cloud, project.external_id)
        if key in seen:
            raise InvalidInput(f"project {project.cloud}/{project.external_id} is in the bill twice; it is billed once")
        seen.add(key)


def _check_no_negative(project: ProjectRef, records: Iterable[UsageWithRates]) -> None:
    rows = sorted(
        f"{record.resource_type} {record.resource_id} from {format_instant(record.from_ts)}: "
        f"{rate.dimension} is {rate.quantity}, {rate.amount} {rate.currency}"
        for record in records
        for rate in record.rates
        if rate.quantity < 0 or rate.amount < 0
    )
    if rows:
        raise Refused(f"bill of {project.cloud}/{project.external_id}: regular usage is never negative", rows)
