"""The rows of a FOCUS 1.2 dataset: one per rated record, and one per discount and surcharge of a bill.

Costs are given twice. ListCost and ContractedCost are the exact product of the unit price and the quantity beside them,
as the specification asks; BilledCost and EffectiveCost are the amounts of the bill, so that they add up to it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from typing import Any, NamedTuple
from uuid import UUID

import simplejson

from pricing.documents.focus_columns import NAMES, Kind
from pricing.documents.focus_names import FocusNames, Service
from pricing.model import Formula
from pricing.money import MICROSECONDS_PER_HOUR, exact_product, plain, round_ratio
from tally.domain.charge import Charge
from tally.domain.instants import microseconds
from tally.domain.principal import ProjectKey

FocusRow = tuple[Any, ...]  # in the order of focus_columns.COLUMNS: str, Decimal, datetime or None

_CREDITS = frozenset({"discount", "project_discount"})
_EXACT = Context(prec=100, traps=[Inexact])
_TAG_TYPES = (str, int, Decimal, bool)


class Adjustment(NamedTuple):
    """A discount or surcharge of a bill; ``sign`` is -1 where a correction takes it back."""

    billed_cloud: str
    billed_project_id: str
    platform: str
    type: str
    scope: str
    text: str
    amount: Decimal
    currency: str
    sign: int


@dataclass(frozen=True, slots=True)
class Dataset:
    """What all rows of a run have in common.

    ``issued_*`` is the billing period, ``period_*`` the metered month. ``names`` and ``tags`` are by project,
    ``invoice_id`` by billed project: None where nothing is issued yet.
    """

    provider: str
    publisher: str
    issuer: str
    run_id: UUID
    corrects_run_id: UUID | None
    issued_from: datetime
    issued_to: datetime
    period_from: datetime
    period_to: datetime
    service_names: FocusNames
    names: Mapping[ProjectKey, str | None]
    tags: Mapping[ProjectKey, Mapping[str, Any]]
    invoice_id: Callable[[ProjectKey], str | None]


def charge_row(charge: Charge, dataset: Dataset) -> FocusRow:
    """The row of one rated record."""
    over_time = charge.formula == Formula.TIME_GAUGE
    unit = dataset.service_names.unit(charge.dimension, over_time=over_time)
    length_us = microseconds(charge.to_ts - charge.from_ts) if over_time else None
    charged_us = length_us if charge.charged_us is None else charge.charged_us
    units = _quantity(charge.quantity, charged_us)
    price = _price(charge, units)
    quantity = _signed(units, charge.sign)
    amount = _signed(charge.amount, charge.sign)
    cost = _EXACT.multiply(price, quantity)
    project, sku = (charge.cloud, charge.project_id), f"{charge.platform}/{charge.resource_type}/{charge.dimension}"
    values = _common(dataset, (charge.billed_cloud, charge.billed_project_id), charge.currency, charge.sign)
    values |= _service(dataset.service_names.service(charge.platform, charge.resource_type))
    values |= {
        "BilledCost": amount,
        "ChargeCategory": "Usage",
        "ChargeDescription": f"{charge.dimension} of {charge.resource_type} {charge.resource_id} while {charge.state}, "
        f"at {plain(price)} {charge.currency} per {unit}",
        "ChargeFrequency": "Usage-Based",
        "ChargePeriodEnd": charge.to_ts,
        "ChargePeriodStart": charge.from_ts,
        "ConsumedQuantity": _signed(_quantity(charge.quantity, length_us), charge.sign),
        "ConsumedUnit": unit,
        "ContractedCost": cost,
        "ContractedUnitPrice": price,
        "EffectiveCost": amount,
        "ListCost": cost,
        "ListUnitPrice": price,
        "PricingCategory": "Standard",
        "PricingQuantity": quantity,
        "PricingUnit": unit,
        "ResourceId": f"{charge.cloud}/{charge.resource_type}/{charge.resource_id}",
        "ResourceName": _shown(charge.resource_name, None),
        "ResourceType": charge.resource_type,
        "SkuId": sku,
        "SkuMeter": charge.dimension,
        "SkuPriceDetails": _price_details(charge),
        "SkuPriceId": sku + _variant(charge),
        "SubAccountId": "/".join(project),
        "SubAccountName": _shown(dataset.names.get(project), charge.project_id),
        "Tags": _tags(dataset.tags.get(project, {})),
        "x_AmountExact": _signed(charge.amount_exact, charge.sign),
        "x_Cloud": charge.cloud,
        "x_Platform": charge.platform,
        "x_PricingVersion": charge.pricing_version,
        "x_RatedRecordId": str(charge.rated_record_id),
        "x_State": charge.state,
        "x_UsageRecordId": str(charge.usage_record_id),
    }
    return tuple(values.get(name) for name in NAMES)


def adjustment_row(adjustment: Adjustment, dataset: Dataset) -> FocusRow:
    """The row of one discount or surcharge: no quantity of anything, so each of its costs is the amount."""
    amount = _signed(adjustment.amount, adjustment.sign)
    values = _common(
        dataset, (adjustment.billed_cloud, adjustment.billed_project_id), adjustment.currency, adjustment.sign
    )
    values |= _service(dataset.service_names.service_of_scope(adjustment.scope))
    values |= {
        "BilledCost": amount,
        "ChargeCategory": "Credit" if adjustment.type in _CREDITS else "Adjustment",
        "ChargeDescription": adjustment.text,
        "ChargeFrequency": "Recurring",
        "ChargePeriodEnd": dataset.period_to,
        "ChargePeriodStart": dataset.period_from,
        "ContractedCost": amount,
        "EffectiveCost": amount,
        "ListCost": amount,
        "x_Adjustment": adjustment.type,
        "x_Cloud": adjustment.billed_cloud,
        "x_Platform": adjustment.platform,
    }
    return tuple(values.get(name) for name in NAMES)


def _common(dataset: Dataset, billed: ProjectKey, currency: str, sign: int) -> dict[str, Any]:
    correction = dataset.corrects_run_id is not None
    return {
        "BillingAccountId": "/".join(billed),
        "BillingAccountName": _shown(dataset.names.get(billed), billed[1]),
        "BillingCurrency": currency,
        "BillingPeriodEnd": dataset.issued_to,
        "BillingPeriodStart": dataset.issued_from,
        "ChargeClass": "Correction" if correction else None,
        "InvoiceId": dataset.invoice_id(billed),
        "InvoiceIssuerName": dataset.issuer,
        "ProviderName": dataset.provider,
        "PublisherName": dataset.publisher,
        "x_CorrectsRunId": str(dataset.corrects_run_id) if correction else None,
        "x_RunId": str(dataset.run_id),
        "x_Sign": str(sign),
    }


def _signed(number: Decimal, sign: int) -> Decimal:
    """Negate without rounding, as arithmetic would beyond 28 digits; nothing is no less than nothing."""
    return number.copy_negate() if sign < 0 and number else number


def _shown(name: str | None, instead: str | None) -> str | None:
    """What is called nothing, or by blanks, has no name: the specification takes no empty text for one."""
    return name if name and name.strip() else instead


def _service(service: Service) -> dict[str, str]:
    return {
        "ServiceCategory": service.category,
        "ServiceName": service.name,
        "ServiceSubcategory": service.subcategory,
    }


def _quantity(quantity: Decimal, length_us: int | None) -> Decimal:
    """Hours times the gauge, or the count; thirds of an hour have no end, so that it is rounded before it is priced."""
    decimals = Kind.QUANTITY.decimals or 0
    if length_us is None:
        return round_ratio(*exact_product(quantity), decimals)
    numerator, denominator = exact_product(quantity, length_us)
    return round_ratio(numerator, denominator * MICROSECONDS_PER_HOUR, decimals)


def _price(charge: Charge, units: Decimal) -> Decimal:
    """What a unit costs; on average, where tiers may price some units of the record otherwise than others."""
    if charge.graduated and units:
        (over, under), (by, of) = charge.amount_exact.as_integer_ratio(), units.as_integer_ratio()
        return round_ratio(over * of, under * by, Kind.UNIT_PRICE.decimals or 0)
    return _unit_price(charge.price, charge.state_modifier, charge.type_modifier)


@lru_cache(maxsize=10_000)
def _unit_price(price: Decimal, state_modifier: Decimal, type_modifier: Decimal) -> Decimal:
    return round_ratio(*exact_product(price, state_modifier, type_modifier), Kind.UNIT_PRICE.decimals or 0)


def _variant(charge: Charge) -> str:
    """What tells two prices of one SKU apart: the state and the type, where they modify it."""
    state = f";state={charge.state}" if charge.state_modifier != 1 else ""
    kind = f";type={charge.type}" if charge.type_modifier != 1 else ""
    return state + kind


def _price_details(charge: Charge) -> str:
    details: dict[str, Any] = {"x_Formula": charge.formula, "x_Price": plain(charge.price)}
    if charge.graduated:
        details["x_Tiers"] = "graduated"
    if charge.state_modifier != 1:
        details |= {"x_State": charge.state, "x_StateModifier": plain(charge.state_modifier)}
    if charge.type_modifier != 1:
        details |= {"x_Type": charge.type, "x_TypeModifier": plain(charge.type_modifier)}
    return _json(details)


def _tags(metadata: Mapping[str, Any]) -> str | None:
    """Leave out what a tag cannot be: lists and objects."""
    tags = {key: value for key, value in metadata.items() if isinstance(value, _TAG_TYPES)}
    return _json(tags) if tags else None


def _json(value: Mapping[str, Any]) -> str:
    return simplejson.dumps(value, use_decimal=True, ensure_ascii=False, sort_keys=True)
