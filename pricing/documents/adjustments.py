"""The discounts and surcharges of a bill, as other documents show them; pricing.bill works out what they come to.

A kickback is paid to a partner: it is no part of what is billed, and stays out of what the customer gets.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, NamedTuple

_KICKBACK = "kickback"


class BilledAdjustment(NamedTuple):
    """One line: what it is, with whom it is agreed, what it applies to, and the signed amount that the total holds."""

    type: str
    target: str
    scope: str  # 'all', or platform.resource_type
    description: str
    rate: Decimal
    amount: Decimal

    @property
    def text(self) -> str:
        """Name it in a line: as it was agreed, else by its type."""
        return self.description or f"{self.type.replace('_', ' ').capitalize()} agreed with {self.target}"


def billed_adjustments(document: Mapping[str, Any]) -> list[BilledAdjustment]:
    """Return the adjustments that are part of the total of a bill, in their order; none where it has none."""
    amount = f"amount_{document['currency'].lower()}"
    return [
        BilledAdjustment(
            line["type"],
            line["relation_target"],
            line["scope"],
            line.get("description", ""),
            line["rate"],
            line[amount],
        )
        for line in document.get("adjustments", ())
        if line["type"] != _KICKBACK
    ]
