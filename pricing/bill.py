"""The bill of one project and one period as a JSON document (rule 30; its form: docs/adr/0003-bill-document.md).

It arranges and adds what has been rated, and rates nothing itself. Adjustments are adjustments.py's; line items come as
text, which tally.store writes where the records lie; which project is billed where is decided by tally.domain.graph,
and who stores the document, by tally.services.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import simplejson

from pricing.adjustments import Adjusted, Applied, Term, apply
from pricing.money import plain, total
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
class LineItems:
    """The line items of one resource type of a project, and what they come to.

    ``text`` is JSON objects with commas between them, as deep as the items of the billed project itself stand.
    """

    resource_type: str
    text: str
    total: Decimal


@dataclass(frozen=True, slots=True)
class RelatedProject:
    """A project that is billed inside another one's bill, with the type of the relation that attributes it."""

    relation_type: str
    project: ProjectRef
    items: Sequence[LineItems]  # by resource type


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
    own_items: Sequence[LineItems],
    related: Sequence[RelatedProject],
    currency: str,
    terms: Sequence[Term] = (),
) -> Bill:
    """Build the bill of a project, whatever order related projects and the terms of its adjustments come in.

    Raises:
        InvalidInput: if a project comes twice.
    """
    related = sorted(related, key=lambda other: other.project)
    _check_once([project, *(other.project for other in related)])
    parts = [(project, own_items), *((other.project, other.items) for other in related)]
    adjusted = apply(_costs_by_type(parts), terms)
    document = {
        **_heading(period_from, period_to, project),
        "line_items": _listed(own_items),
        "related_costs": [_related_cost(other) for other in related],
        **(_adjustments(adjusted, currency) if adjusted.lines else {}),
        "total": adjusted.net,
        "currency": currency,
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


def _costs_by_type(parts: Iterable[tuple[ProjectRef, Sequence[LineItems]]]) -> Mapping[str, Decimal]:
    """Add up line items by platform.resource_type."""
    costs: defaultdict[str, Decimal] = defaultdict(Decimal)
    for project, items in parts:
        for one in items:
            costs[f"{project.platform}.{one.resource_type}"] += one.total
    return costs


def _listed(items: Sequence[LineItems]) -> simplejson.RawJSON:
    text = ",\n    ".join(one.text for one in items)
    return simplejson.RawJSON(f"[\n    {text}\n  ]" if items else "[]")


def _related_cost(related: RelatedProject) -> Document:
    deeper = simplejson.RawJSON(_listed(related.items).encoded_json.replace("\n", "\n    "))
    return {
        "relation_type": related.relation_type,
        "project_id": related.project.external_id,
        "platform": related.project.platform,
        "cloud": related.project.cloud,
        "line_items": deeper,
        "total": total(one.total for one in related.items),
    }


def _check_once(projects: Sequence[ProjectRef]) -> None:
    seen = set()
    for project in projects:
        key = (project.cloud, project.external_id)
        if key in seen:
            raise InvalidInput(f"project {project.address} is in the bill twice; it is billed once")
        seen.add(key)
