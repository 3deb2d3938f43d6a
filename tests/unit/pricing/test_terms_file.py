"""The optional keys of a dimension in a price file: how they are read, and refused."""

from decimal import Decimal

import pytest
import simplejson

from pricing.model import PriceVersion
from pricing.price_file import parse_price_version
from pricing.terms import Group, Terms, Tier, TierMode, Tiers
from tally.domain.errors import InvalidInput

HEAD = """\
version: v1
valid_from: 2026-03
currency: EUR
pricing:
  hetzner:
    server:
      dimensions:
"""

def version(dimension: str) -> PriceVersion:
    return parse_price_version(f"{HEAD}        - {dimension}\n", "prices.yaml")


def terms(dimension: str) -> Terms | None:
    return version(dimension).prices[0].terms


def faults(dimension: str) -> str:
    with pytest.raises(InvalidInput) as caught:
        version(dimension)
    return str(caught.value).removeprefix("prices.yaml: ")


GAUGE = "{metric: vcpus, type: time_gauge, price_per_unit_hour: 1, %s}"
COUNTER = "{metric: egress_gb, type: counter, price_per_unit: 0.09, %s}"
TIERED = "{metric: egress_gb, type: counter, tiers: {mode: graduated, per: project, steps: [%s]}}"
TWO = "{up_to: 100, price_per_unit: 0.09}, {price_per_unit: 0.05}"


def test_tiers_stand_in_place_of_a_price() -> None:
    steps = (Tier(Decimal(100), Decimal("0.09")), Tier(None, Decimal("0.05")))
    assert terms(TIERED % TWO) == Terms(Tiers(TierMode.GRADUATED, Group.PROJECT, steps))
    assert version(TIERED % TWO).prices[0].price == Decimal("0.05")


def test_what_is_free_is_a_tier_that_costs_nothing() -> None:
    read = terms(COUNTER % "free_quantity: {quantity: 100, per: resource}")
    steps = (Tier(Decimal(100), Decimal(0)), Tier(None, Decimal("0.09")))
    assert read == Terms(Tiers(TierMode.GRADUATED, Group.RESOURCE, steps))


@pytest.mark.parametrize(("text", "seconds"), [("90s", 90), ("10m", 600), ("1h", 3600), ("31d", 2_678_400)])
def test_times_are_written_with_their_unit(text: str, seconds: int) -> None:
    assert terms(GAUGE % f"minimum_duration: {text}") == Terms(minimum_us=seconds * 1_000_000)
    assert terms(GAUGE % f"billing_increment: {text}") == Terms(increment_us=seconds * 1_000_000)


def test_a_price_without_terms_has_none() -> None:
    assert version(GAUGE.replace(", %s", "")).prices[0].terms is None


@pytest.mark.parametrize(
    "dimension",
    [
        TIERED % TWO,
        COUNTER % "free_quantity: {quantity: 0.5, per: project}, monthly_cap: 6.90",
        GAUGE % "minimum_duration: 10m, billing_increment: 1h, monthly_cap: 6.90",
    ],
)
def test_the_content_as_json_reads_back_as_the_same_version(dimension: str) -> None:
    """A loaded version is read from its content: another text would be another price."""
    original = version(dimension)
    again = parse_price_version(simplejson.dumps(original.content, use_decimal=True), "content")
    assert again == original
    assert again.content_hash == original.content_hash


@pytest.mark.parametrize(
    ("dimension", "fault"),
    [
        (GAUGE % "minimum_duration: 1", "minimum_duration of hetzner.server.vcpus is '1'; write a time up to 31d"),
        (GAUGE % "minimum_duration: 0h", "is '0h'; write a time"),
        (GAUGE % "billing_increment: 32d", "is '32d'; write a time up to 31d such as 60s, 10m, 1h or 1d"),
        (COUNTER % "billing_increment: 1h", "billing_increment of hetzner.server.egress_gb is for a time_gauge"),
        (COUNTER % "monthly_cap: -1", "monthly_cap of hetzner.server.egress_gb is -1; it is never negative"),
        (COUNTER % "free_quantity: 5", "free_quantity of hetzner.server.egress_gb is not a mapping"),
        (COUNTER % "free_quantity: {quantity: 0, per: project}", "is 0; leave it out"),
        (COUNTER % "free_quantity: {quantity: 1, per: planet}", "is 'planet'; known are resource, project"),
        (COUNTER % "free_quantity: {quantity: 1}", "free_quantity of hetzner.server.egress_gb lacks per"),
        (COUNTER % f"tiers: {{mode: volume, per: project, steps: [{TWO}]}}", "has price_per_unit beside tiers"),
        (TIERED % "", "steps of hetzner.server.egress_gb is empty"),
        (TIERED % "{up_to: 5, price_per_unit: 1}", "the last step has none"),
        (TIERED % "{price_per_unit: 1}, {price_per_unit: 1}", "up_to of tiers of hetzner.server.egress_gb rises"),
        (TIERED % "{up_to: 5, price_per_unit: 1}, {up_to: 5, price_per_unit: 1}, {price_per_unit: 1}", "rises"),
        (TIERED % "{up_to: 0, price_per_unit: 1}, {price_per_unit: 1}", "from above 0"),
        (TIERED % "{up_to: 5, price_per_unit_hour: 1}", "has the unknown key 'price_per_unit_hour'"),
        (TIERED % ", ".join(["{up_to: 1, price_per_unit: 1}"] * 51), "has 51 tiers; at most 50"),
        (TIERED.replace("graduated", "block") % TWO, "mode of hetzner.server.egress_gb is 'block'; known"),
    ],
)
def test_a_fault_is_named_with_its_line(dimension: str, fault: str) -> None:
    found = faults(dimension)
    assert found.startswith("line 8: ")
    assert fault in found


def test_all_faults_are_reported_together() -> None:
    found = faults(GAUGE % "monthly_cap: x, minimum_duration: y, billing_increment: z")
    assert found.count("line 8: ") == 3
