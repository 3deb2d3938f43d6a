"""The columns of a FOCUS 1.2 dataset as Tally writes it: names, types and what each holds.

Those of the specification come first, in the order of the alphabet, then Tally's own, which begin with ``x_``. What
the values are is worked out in focus.py; how a type is written in a file, by tally.services.
"""

from enum import Enum
from typing import NamedTuple

FOCUS_VERSION = "1.2"


class Kind(Enum):
    """What a column holds; a decimal with the number of its decimals."""

    TEXT = "text"
    JSON = "json"
    INSTANT = "instant"
    AMOUNT = 2         # what is invoiced
    EXACT_AMOUNT = 12  # what was rated, before it was rounded
    QUANTITY = 10
    UNIT_PRICE = 14
    COST = 24          # of a unit price and a quantity, and so exactly their product

    @property
    def decimals(self) -> int | None:
        """The scale of a decimal; None of what is no number."""
        return self.value if isinstance(self.value, int) else None


class Column(NamedTuple):
    """One column; one that is not nullable has a value in every row."""

    name: str
    kind: Kind
    nullable: bool
    help: str


COLUMNS = (
    Column("BilledCost", Kind.AMOUNT, False, "What is invoiced: rounded half up to 2 decimals, as on the bill"),
    Column("BillingAccountId", Kind.TEXT, False, "The project that is billed: cloud/project"),
    Column("BillingAccountName", Kind.TEXT, False, "Its name in the registry of projects, else its id in the cloud"),
    Column("BillingCurrency", Kind.TEXT, False, "The currency of the price version"),
    Column("BillingPeriodEnd", Kind.INSTANT, False, "The first instant after the month of issue"),
    Column("BillingPeriodStart", Kind.INSTANT, False, "The month of issue: the metered month, or the one in which a "
           "correction was finalized"),
    Column("ChargeCategory", Kind.TEXT, False, "Usage; Credit for discounts; Adjustment for surcharges"),
    Column("ChargeClass", Kind.TEXT, True, "Correction for what a correction has written"),
    Column("ChargeDescription", Kind.TEXT, False, "What it is for, at which price"),
    Column("ChargeFrequency", Kind.TEXT, False, "Usage-Based; Recurring for adjustments"),
    Column("ChargePeriodEnd", Kind.INSTANT, False, "The first instant after it; of a correction the original one"),
    Column("ChargePeriodStart", Kind.INSTANT, False, "Beginning of the usage record, or of the month for adjustments"),
    Column("ConsumedQuantity", Kind.QUANTITY, True, "What was used, in ConsumedUnit; of usage only"),
    Column("ConsumedUnit", Kind.TEXT, True, "Such as Core-Hours or GB"),
    Column("ContractedCost", Kind.COST, False, "ContractedUnitPrice x PricingQuantity, exactly"),
    Column("ContractedUnitPrice", Kind.UNIT_PRICE, True, "ListUnitPrice: discounts are rows of their own"),
    Column("EffectiveCost", Kind.AMOUNT, False, "BilledCost: nothing is bought in advance"),
    Column("InvoiceId", Kind.TEXT, True, "Number of the invoice; of a correction, of what replaces it"),
    Column("InvoiceIssuerName", Kind.TEXT, False, "TALLY_INVOICE_ISSUER_NAME, else the provider"),
    Column("ListCost", Kind.COST, False, "ListUnitPrice x PricingQuantity, exactly"),
    Column("ListUnitPrice", Kind.UNIT_PRICE, True, "The price with the modifiers of state and type"),
    Column("PricingCategory", Kind.TEXT, True, "Standard for usage"),
    Column("PricingQuantity", Kind.QUANTITY, True, "Hours x quantity of a gauge, or a count; half up to 10 decimals"),
    Column("PricingUnit", Kind.TEXT, True, "Such as Core-Hours or GB"),
    Column("ProviderName", Kind.TEXT, False, "TALLY_PROVIDER_NAME"),
    Column("PublisherName", Kind.TEXT, False, "TALLY_PUBLISHER_NAME, else the provider"),
    Column("ResourceId", Kind.TEXT, True, "cloud/resource type/id; null for adjustments"),
    Column("ResourceName", Kind.TEXT, True, "The attribute name of the usage, where there is one"),
    Column("ResourceType", Kind.TEXT, True, "As in the registry of resource types"),
    Column("ServiceCategory", Kind.TEXT, False, "By the table of services"),
    Column("ServiceName", Kind.TEXT, False, "By the table of services"),
    Column("ServiceSubcategory", Kind.TEXT, False, "By the table of services"),
    Column("SkuId", Kind.TEXT, True, "platform/resource type/metric"),
    Column("SkuMeter", Kind.TEXT, True, "The metric that is priced"),
    Column("SkuPriceDetails", Kind.JSON, True, "Price, formula and modifiers behind ListUnitPrice"),
    Column("SkuPriceId", Kind.TEXT, True, "SkuId, with the state and the type where they modify the price"),
    Column("SubAccountId", Kind.TEXT, True, "The project that used it: cloud/project; null for adjustments"),
    Column("SubAccountName", Kind.TEXT, True, "Its name in the registry of projects, else its id in the cloud"),
    Column("Tags", Kind.JSON, True, "The metadata of that project: texts, numbers and booleans"),
    Column("x_Adjustment", Kind.TEXT, True, "discount, project_discount or surcharge"),
    Column("x_AmountExact", Kind.EXACT_AMOUNT, True, "What was rated before rounding, to 12 decimals"),
    Column("x_Cloud", Kind.TEXT, False, "The cloud of the charge"),
    Column("x_CorrectsRunId", Kind.TEXT, True, "Of a correction: the regular run that it corrects"),
    Column("x_Platform", Kind.TEXT, True, "The platform of that cloud"),
    Column("x_PricingVersion", Kind.TEXT, True, "The price version it was rated by"),
    Column("x_RatedRecordId", Kind.TEXT, True, "The rated record: what tally explain takes"),
    Column("x_RunId", Kind.TEXT, False, "The run that wrote the charge"),
    Column("x_Sign", Kind.TEXT, False, "-1 where a correction takes the charge back, else 1"),
    Column("x_State", Kind.TEXT, True, "The state of the resource"),
    Column("x_UsageRecordId", Kind.TEXT, True, "The usage record behind it"),
)

NAMES = tuple(column.name for column in COLUMNS)
