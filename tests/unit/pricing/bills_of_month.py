"""Bills as small as can be, in the form of the ledger: the words of the tests of what is made of them."""

from decimal import Decimal
from typing import Any

MARCH = {"from": "2026-03-01T00:00:00Z", "to": "2026-04-01T00:00:00Z"}


def period(begin: str = "03-01T00:00:00", end: str = "04-01T00:00:00", **changes: Any) -> dict[str, Any]:
    """A period of 100 GB in use for 7.44."""
    fields = {
        "state": "in-use",
        "from": f"2026-{begin}Z",
        "to": f"2026-{end}Z",
        "hours": Decimal(744),
        "usage": {"size_gb": Decimal(100)},
        "cost": {"size_gb": Decimal("7.44"), "total": Decimal("7.44")},
        "state_modifier": Decimal("1.0"),
        "type_modifier": Decimal("1.0"),
    }
    return fields | changes


def item(resource_id: str = "data", *periods: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A volume."""
    fields = {
        "resource_type": "volume",
        "resource_id": resource_id,
        "platform": "openstack",
        "description": "ssd volume",
        "periods": list(periods or [period()]),
        "total": Decimal("7.44"),
    }
    return fields | changes


def bill(*items: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A bill of 7.44 a volume."""
    fields = {
        "billing_period": MARCH,
        "project_id": "shop",
        "platform": "openstack",
        "cloud": "os",
        "line_items": list(items),
        "related_costs": [],
        "total": sum((one["total"] for one in items), Decimal("0.00")),
        "currency": "EUR",
    }
    return fields | changes


def discount(amount: str, **changes: Any) -> dict[str, Any]:
    """A line of adjustments as a bill holds it."""
    fields = {
        "type": "discount",
        "relation_type": "managed_by",
        "relation_target": "Partner Corp",
        "relation_id": "0",
        "scope": "all",
        "rate": Decimal("0.1"),
        "base_eur": Decimal("7.44"),
        "amount_eur": Decimal(amount),
    }
    return fields | changes
