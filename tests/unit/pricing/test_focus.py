"""One charge as a FOCUS row: exact products, what is taken back, and how a table of names reads."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.documents.focus import Adjustment, Dataset, adjustment_row, charge_row
from pricing.documents.focus_columns import COLUMNS, NAMES, Kind
from pricing.documents.focus_names import shipped_names
from pricing.model import Formula
from tally.domain.charge import Charge

START = datetime(2026, 3, 1, tzinfo=UTC)
RUN, RECORD = UUID(int=1), UUID(int=2)
CHARGE = Charge(
    "os", "shop", "os", "shop", "openstack", "volume", "data", None, "in-use", "ssd", START, START + timedelta(hours=1),
    "size_gb", str(Formula.TIME_GAUGE), False, None, Decimal(100), Decimal("0.0001"), Decimal(1), Decimal(1),
    Decimal("0.01"), Decimal("0.010000000000"), "EUR", "2026-03", RECORD, RECORD, 1,
)  # fmt: skip
DATASET = Dataset(
    "Example Cloud", "Example Cloud", "Example Cloud", RUN, None, START, START + timedelta(days=31), START,
    START + timedelta(days=31), shipped_names(), {}, {}, lambda _: None,
)  # fmt: skip


def row(**changes: Any) -> dict[str, Any]:
    """The row of a charge, by column."""
    return dict(zip(NAMES, charge_row(CHARGE._replace(**changes), DATASET), strict=True))


@given(
    length=st.integers(1, 31 * 86_400_000_000),
    quantity=st.decimals(0, 10**9, places=6),
    price=st.decimals(0, 1000, places=10),
    modifier=st.sampled_from([Decimal(1), Decimal("0.5"), Decimal("0.25"), Decimal("1.33")]),
    sign=st.sampled_from([1, -1]),
)
def test_list_cost_is_exactly_price_times_quantity(
    length: int, quantity: Decimal, price: Decimal, modifier: Decimal, sign: int
) -> None:
    """As fractions: nothing is rounded between the two factors and their product, whatever the numbers are."""
    found = row(
        to_ts=START + timedelta(microseconds=length), quantity=quantity, price=price, state_modifier=modifier, sign=sign
    )
    product = Fraction(found["ListUnitPrice"]) * Fraction(found["PricingQuantity"])
    assert Fraction(found["ListCost"]) == product
    exact = sign * Fraction(length, 3_600_000_000) * Fraction(quantity) * Fraction(price) * Fraction(modifier)
    assert abs(product - exact) <= Fraction(found["ListUnitPrice"]) / (2 * 10**10)
    for column, value in zip(COLUMNS, found.values(), strict=True):
        if isinstance(value, Decimal):
            assert -value.as_tuple().exponent <= (column.kind.decimals or 0)


def test_a_counter_is_priced_by_its_count() -> None:
    """However long the record is."""
    found = row(dimension="egress_gb", formula="counter", quantity=Decimal("18.5"), price=Decimal("0.09"))
    assert (found["PricingQuantity"], found["PricingUnit"]) == (Decimal("18.5"), "GB")
    assert found["ListCost"] == Decimal("1.665")


def test_what_is_charged_for_more_time_is_consumed_for_its_own() -> None:
    """An hour that has begun: 20 minutes are consumed, 60 are priced."""
    found = row(to_ts=START + timedelta(minutes=20), charged_us=3_600_000_000)
    assert (found["ConsumedQuantity"], found["PricingQuantity"]) == (Decimal("33.3333333333"), Decimal(100))
    assert found["ListCost"] == Decimal("0.01")


def test_a_unit_that_several_tiers_price_costs_their_average() -> None:
    """A third has no end: the product is exact all the same, and no more than the rounding of the price away."""
    found = row(
        dimension="egress_gb", formula="counter", graduated=True, quantity=Decimal(3), price=Decimal("0.09"),
        amount=Decimal("0.10"), amount_exact=Decimal("0.100000000000"),
    )  # fmt: skip
    assert (found["ListUnitPrice"], found["ListCost"]) == (Decimal("0.03333333333333"), Decimal("0.09999999999999"))
    assert row(graduated=True, quantity=Decimal(0))["ListUnitPrice"] == Decimal("0.0001")


@pytest.mark.parametrize("blank", ["", " \t", "\u3000"])
def test_a_name_of_blanks_is_none(blank: str) -> None:
    """A resource has no name then, and a project goes by its id."""
    named = replace(DATASET, names={("os", "shop"): blank})
    found = dict(zip(NAMES, charge_row(CHARGE._replace(resource_name=blank), named), strict=True))
    assert (found["ResourceName"], found["SubAccountName"], found["BillingAccountName"]) == (None, "shop", "shop")


def test_what_is_taken_back_is_negated() -> None:
    """Quantity and costs, not the price; nothing is not negated to a minus zero."""
    found = row(sign=-1)
    assert (found["BilledCost"], found["PricingQuantity"]) == (Decimal("-0.01"), Decimal(-100))
    assert found["ListUnitPrice"] == Decimal("0.0001")
    assert str(row(sign=-1, amount=Decimal("0.00"))["BilledCost"]) == "0.00"


def test_a_state_that_modifies_the_price_is_another_price_of_the_same_sku() -> None:
    """So is a type."""
    found = row(state="shelved", state_modifier=Decimal("0.5"), type_modifier=Decimal(2))
    assert found["SkuId"] == "openstack/volume/size_gb"
    assert found["SkuPriceId"] == "openstack/volume/size_gb;state=shelved;type=ssd"
    assert found["ListUnitPrice"] == Decimal("0.0001")


@pytest.mark.parametrize(
    ("kind", "category"), [("discount", "Credit"), ("project_discount", "Credit"), ("surcharge", "Adjustment")]
)
def test_adjustments_are_credits_or_adjustments(kind: str, category: str) -> None:
    """Of the service that their scope names; each cost of them is the amount."""
    line = Adjustment("os", "shop", "openstack", kind, "openstack.instance", "agreed", Decimal("-5.00"), "EUR", -1)
    found = dict(zip(NAMES, adjustment_row(line, DATASET), strict=True))
    assert (found["ChargeCategory"], found["ServiceName"]) == (category, "OpenStack Instances")
    assert {found[name] for name in ("BilledCost", "EffectiveCost", "ListCost", "ContractedCost")} == {Decimal(5)}


def test_what_the_table_does_not_list_has_a_name_all_the_same() -> None:
    """A service of its own, and units that are counted."""
    names = shipped_names()
    assert names.service("acme", "cassette") == ("acme cassette", "Other", "Other (Other)")
    assert names.unit("plays", over_time=False) == "Units"
    assert names.unit("tape_gb", over_time=True) == "GB-Hours"


def test_costs_have_room_for_the_product_of_their_factors() -> None:
    """The decimals of a cost are those of a price and a quantity together."""
    assert Kind.COST.value == Kind.UNIT_PRICE.value + Kind.QUANTITY.value
