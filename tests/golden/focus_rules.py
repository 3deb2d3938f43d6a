"""The rules of FOCUS 1.2 that apply to Tally, written down again from the specification: what a file breaks.

It knows nothing of how Tally makes the rows. Rules on commitments, reservations, regions, taxes, purchases and other
currencies do not apply: Tally has none of these.
"""

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Context, Decimal, Inexact
from typing import Any

Row = Mapping[str, Any]  # by column: str, Decimal, datetime or None


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


# All of them, but for those with a condition that no Tally meets: who sells by unit prices from a price list, resource
# by resource, to sub accounts with tags, has to have the others.
REQUIRED = _names(
    """
    BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
    ChargeClass ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName
    ListCost PricingQuantity PricingUnit ProviderName PublisherName ServiceCategory ServiceName
    ConsumedQuantity ConsumedUnit ContractedUnitPrice ListUnitPrice ResourceId ResourceName ResourceType SkuId SkuMeter
    SkuPriceDetails SkuPriceId SubAccountId SubAccountName Tags
    ChargeFrequency InvoiceId ServiceSubcategory
    """
)
NEVER_NULL = _names(
    """
    BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd BillingPeriodStart ChargeCategory
    ChargeDescription ChargePeriodEnd ChargePeriodStart ContractedCost EffectiveCost InvoiceIssuerName ListCost
    ProviderName PublisherName ServiceCategory ServiceName ChargeFrequency ServiceSubcategory
    """
)

COSTS = ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")
PRICES = (("ListUnitPrice", "ListCost"), ("ContractedUnitPrice", "ContractedCost"))
NUMBERS = {*COSTS, "ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "ConsumedQuantity"}
INSTANTS = {"BillingPeriodStart", "BillingPeriodEnd", "ChargePeriodStart", "ChargePeriodEnd"}
JSONS = ("Tags", "SkuPriceDetails")

ALLOWED: Mapping[str, set[str | None]] = {
    "ChargeCategory": {"Usage", "Purchase", "Tax", "Credit", "Adjustment"},
    "ChargeClass": {"Correction", None},
    "ChargeFrequency": {"One-Time", "Recurring", "Usage-Based"},
    "PricingCategory": {"Standard", "Dynamic", "Committed", "Other", None},
}
# The categories that Tally can name, with their subcategories.
SUBCATEGORIES: Mapping[str, set[str]] = {
    "Compute": {"Containers", "Serverless Compute", "Virtual Machines", "Other (Compute)"},
    "Databases": {"Caching", "NoSQL Databases", "Relational Databases", "Other (Databases)"},
    "Developer Tools": {"Developer Platforms", "Source Code Management", "Other (Developer Tools)"},
    "Networking": {"Application Networking", "Content Delivery", "Network Connectivity", "Network Infrastructure",
                   "Network Routing", "Network Security", "Other (Networking)"},
    "Storage": {"Backup Storage", "Block Storage", "File Storage", "Object Storage", "Other (Storage)"},
    "Other": {"Other (Other)"},
}  # fmt: skip
_UNIT = re.compile(r"(?:[KMGTPE]i?)?B(?:-Hours)?|[A-Z][a-z]+-Hours|[A-Z][a-z]+s")
_NAME = re.compile(r"(?:x_)?(?:[A-Z][a-z]+)+")
_CSV_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CSV_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")


def faults(columns: Sequence[str], rows: Sequence[Row]) -> list[str]:
    """What is wrong with a dataset, each fault with the number of its row."""
    found = list(_columns(columns))
    for number, row in enumerate(rows, start=1):
        found += [f"row {number}: {fault}" for check in _ROW_RULES for fault in check(row)]
    return [*found, *_services(rows)]


def csv_faults(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """What is wrong with how numbers and instants are written in a CSV."""
    return [
        f"{name} is written {row[name]}"
        for row in rows
        for names, form in ((NUMBERS, _CSV_NUMBER), (INSTANTS, _CSV_INSTANT))
        for name in sorted(names)
        if row[name] and not form.fullmatch(row[name])
    ]


def from_csv(row: Mapping[str, str]) -> Row:
    """A line of a CSV as the values that it means; an empty field is null."""
    return {name: _value(name, text) if text else None for name, text in row.items()}


def _value(name: str, text: str) -> Any:
    if name in NUMBERS or name == "x_AmountExact":
        return Decimal(text)
    return datetime.fromisoformat(text) if name in INSTANTS else text


def _columns(columns: Sequence[str]) -> Iterator[str]:
    yield from (f"{name} is missing" for name in sorted(REQUIRED - set(columns)))
    yield from (f"{name} is no name of a column" for name in columns if not _NAME.fullmatch(name))
    own = [name.startswith("x_") for name in columns]
    if own != sorted(own):
        yield "columns of the specification follow custom ones"


def _nulls(row: Row) -> Iterator[str]:
    yield from (f"{name} is null" for name in sorted(NEVER_NULL) if row[name] is None)
    yield from (f"{name} is empty" for name, value in row.items() if isinstance(value, str) and not value.strip())
    regular_usage = row["ChargeCategory"] == "Usage" and row["ChargeClass"] is None
    for name in ("ListUnitPrice", "ContractedUnitPrice", "PricingQuantity", "PricingCategory", "SkuId", "SkuPriceId"):
        if regular_usage and row[name] is None:
            yield f"{name} of usage is null"
    if regular_usage and row["ConsumedQuantity"] is None:
        yield "ConsumedQuantity of usage is null"
    if row["ChargeCategory"] != "Usage" and row["ConsumedQuantity"] is not None:
        yield "ConsumedQuantity of what is no usage"


def _together(row: Row) -> Iterator[str]:
    """Null where the other is null, and only there."""
    for name, other in (
        ("PricingUnit", "PricingQuantity"), ("ConsumedUnit", "ConsumedQuantity"), ("SubAccountName", "SubAccountId"),
        ("ResourceType", "ResourceId"), ("SkuMeter", "SkuId"),
    ):  # fmt: skip
        if (row[name] is None) != (row[other] is None):
            yield f"{name} and {other} do not go together"
    if row["ResourceName"] is not None and row["ResourceName"] == row["ResourceId"]:
        yield "ResourceName repeats ResourceId"


def _allowed(row: Row) -> Iterator[str]:
    yield from (f"{name} is {row[name]}" for name, values in ALLOWED.items() if row[name] not in values)
    if row["ServiceSubcategory"] not in SUBCATEGORIES.get(row["ServiceCategory"], set()):
        yield f"{row['ServiceSubcategory']} is no subcategory of {row['ServiceCategory']}"
    if not re.fullmatch("[A-Z]{3}", row["BillingCurrency"]):
        yield f"BillingCurrency is {row['BillingCurrency']}"
    for name in ("PricingUnit", "ConsumedUnit"):
        if row[name] is not None and not _UNIT.fullmatch(row[name]):
            yield f"{name} is {row[name]}"
    for name in JSONS:
        if row[name] is not None and any(isinstance(value, dict | list) for value in json.loads(row[name]).values()):
            yield f"{name} holds more than keys and values"


def _periods(row: Row) -> Iterator[str]:
    """Beginnings are inclusive and ends exclusive: a period that holds anything ends after it begins."""
    for name in ("BillingPeriod", "ChargePeriod"):
        start, end = row[f"{name}Start"], row[f"{name}End"]
        if start.utcoffset().total_seconds() or end.utcoffset().total_seconds():
            yield f"{name} is not in UTC"
        if not start < end:
            yield f"{name} from {start} to {end} holds nothing"
    charged_in_its_month = (
        row["BillingPeriodStart"] <= row["ChargePeriodStart"] and row["ChargePeriodEnd"] <= row["BillingPeriodEnd"]
    )
    if charged_in_its_month == (row["ChargeClass"] == "Correction"):
        yield "a charge of another month, and no other, is a correction"


def _products(row: Row) -> Iterator[str]:
    """Exactly, not nearly: decimals are compared."""
    for price, cost in PRICES:
        if row[price] is not None and row[price] < 0:
            yield f"{price} is negative"
        factors = row[price], row["PricingQuantity"]
        if None not in factors and _product(*factors) != row[cost]:
            yield f"{price} x PricingQuantity is not {cost}"
        if row[price] is None and row[cost] != row["BilledCost"]:
            yield f"{cost} of what has no price is not its BilledCost"
    if row["ChargeCategory"] not in {"Usage", "Purchase"} and row["EffectiveCost"] != row["BilledCost"]:
        yield "EffectiveCost of what stands alone is not its BilledCost"


def _product(price: Decimal, quantity: Decimal) -> Decimal:
    return Context(prec=100, traps=[Inexact]).multiply(price, quantity)


def _services(rows: Sequence[Row]) -> Iterator[str]:
    """A service has one category, a price one SKU."""
    for name, parent in (("ServiceName", "ServiceCategory"), ("SkuPriceId", "SkuId")):
        parents: defaultdict[str, set[str]] = defaultdict(set)
        for row in rows:
            if row[name] is not None:
                parents[row[name]].add(row[parent])
        yield from (f"{name} {child} has several {parent}" for child, several in parents.items() if len(several) > 1)


_ROW_RULES: tuple[Callable[[Row], Iterator[str]], ...] = (_nulls, _together, _allowed, _periods, _products)
