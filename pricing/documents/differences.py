"""What one bill of a month costs other than the one before: by resource, adjustment and in all."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

from pricing.documents.adjustments import billed_adjustments

_NOTHING = Decimal("0.00")
Document = Mapping[str, Any]


class Difference(NamedTuple):
    """One line that costs something else than before."""

    project: str
    what: str
    before: Decimal
    after: Decimal

    @property
    def change(self) -> Decimal:
        """What is charged in addition, or credited if negative."""
        return self.after - self.before


def differences(before: Document | None, after: Document | None) -> list[Difference]:
    """Compare two bills of a project; None is no bill. Lines that cost the same are left out."""
    old, new = _costs(before), _costs(after)
    lines = [Difference(*key, old.get(key, _NOTHING), new.get(key, _NOTHING)) for key in dict.fromkeys([*old, *new])]
    return [line for line in lines if line.change]


def _costs(document: Document | None) -> dict[tuple[str, str], Decimal]:
    """Costs by (project, what), in the order of the document."""
    costs: dict[tuple[str, str], Decimal] = {}
    if document is None:
        return costs
    for part in (document, *document["related_costs"]):
        for item in part["line_items"]:
            key = (f"{part['cloud']}/{part['project_id']}", f"{item['resource_type']} {item['resource_id']}")
            costs[key] = costs.get(key, _NOTHING) + item["total"]
    for adjustment in billed_adjustments(document):
        key = ("", f"{adjustment.text} ({adjustment.scope})")
        costs[key] = costs.get(key, _NOTHING) + adjustment.amount
    return costs
