"""The bill of one project and one period as a JSON document (rule 30; its form: docs/adr/0003-bill-document.md).

It arranges and adds what has been rated, and rates nothing itself. Line items are line_items.py's, adjustments
adjustments.py's; which project is billed where is decided by tally.domain.graph; who reads the rows and stores the
document, by tally.services.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import simplejson

from pricing.adjustments import Adjusted, Applied, Term, apply
from pricing.line_items import Forms, LineItems, UsageCosts, amount_text, line_items
from pricing.money import plain
from tally.domain.errors import InvalidInput
from tally.domain.instants import format_instant

Document = dict[str, Any]


@dataclass(frozen=True, slots=True, order=True)
class ProjectRef:
    """A project: external ids are only unique within a cloud."""

    cloud: str
    external_id: str
    platform: str

    @property
    def address(self) -> str:
        """How people name it."""
        return f"{self.cloud}/{self.external_id}"


@dataclass(frozen=True, slots=True)
class RelatedProject:
    """A project that is billed inside another one's bill, with the type of the relation that attributes it."""

    relation_type: str
    project: ProjectRef
    records: Iterable[UsageCosts]


@dataclass(frozen=True, slots=True)
class Bill:
    """A bill: the JSON text of the document, and its total and its adjustments again for the ledger."""

    document: str
    total: Decimal
    adjustments: tuple[Applied, ...] = ()


def build_bill(
    period_from: datetime,
    period_to: datetime,
    project: ProjectRef,
    own_records: Iterable[UsageCosts],
    related: Sequence[RelatedProject],
    forms: Forms,
    terms: Sequence[Term] = (),
) -> Bill:
    """Build the bill of a project, whatever order the records and the terms of its adjustments come in.

    Raises:
        Refused: if regular usage or its cost is negative, naming the rows.
        InvalidInput: if a project comes twice, a record was rated in another currency or by other prices.
    """
    _check_once([project, *(other.project for other in related)])
    own = line_items(own_records, project.address, project.platform, forms)
    others = [
        (other, line_items(other.records, other.project.address, other.project.platform, forms))
        for other in sorted(related, key=lambda other: other.project)
    ]
    adjusted = apply(_costs_by_type([own, *(items for _, items in others)]), terms)
    document = {
        **_heading(period_from, period_to, project),
        "line_items": simplejson.RawJSON(own.text),
        "related_costs": [_related_cost(other, items) for other, items in others],
        **(_adjustments(adjusted, forms.version.currency) if adjusted.lines else {}),
        "total": adjusted.net,
        "currency": forms.version.currency,
    }
    return Bill(to_json(document), adjusted.net, adjusted.lines)


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
        **_heading(period_from, period_to, project),
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


def _heading(period_from: datetime, period_to: datetime, project: ProjectRef) -> Document:
    return {
        "billing_period": {"from": format_instant(period_from), "to": format_instant(period_to)},
        "project_id": project.external_id,
        "platform": project.platform,
        "cloud": project.cloud,
    }


def _costs_by_type(parts: Iterable[LineItems]) -> Mapping[str, Decimal]:
    """Add up line items, related ones included, by platform.resource_type."""
    cents: Counter[str] = Counter()
    for items in parts:
        cents.update(items.cents_by_type)
    return {kind: Decimal(amount_text(amount)) for kind, amount in cents.items()}


def _related_cost(related: RelatedProject, items: LineItems) -> Document:
    return {
        "relation_type": related.relation_type,
        "project_id": related.project.external_id,
        "platform": related.project.platform,
        "cloud": related.project.cloud,
        "line_items": simplejson.RawJSON(items.text.replace("\n", "\n    ")),  # two levels deeper
        "total": Decimal(amount_text(items.cents)),
    }


def _check_once(projects: Sequence[ProjectRef]) -> None:
    seen = set()
    for project in projects:
        key = (project.cloud, project.external_id)
        if key in seen:
            raise InvalidInput(f"project {project.address} is in the bill twice; it is billed once")
        seen.add(key)
