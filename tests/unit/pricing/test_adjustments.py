"""Adjustments of a bill: what relations may agree on, and what it comes to, to the cent (rule 29)."""

from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal, localcontext
from fractions import Fraction
from random import Random
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pricing.adjustments import Adjusted, Adjustment, AdjustmentType, Term, apply, read_adjustments
from tally.domain.errors import InvalidInput

INSTANCE, SHOOT, VOLUME = "openstack.instance", "gardener.shoot", "openstack.volume"
GARDENER = {SHOOT: Decimal("223.20"), INSTANCE: Decimal("297.60")}


def term(kind: str, rate: str, scope: str = "all", relation: int = 1, place: int = 0) -> Term:
    adjustment = Adjustment(AdjustmentType(kind), Decimal(rate), scope)
    return Term(UUID(int=relation), place, "managed_by", ("os", "p"), ("partner", "corp"), "Partner Corp", adjustment)


def amounts(adjusted: Adjusted) -> list[str]:
    return [f"{line.term.adjustment.type} of {line.base}: {line.amount}" for line in adjusted.lines]


def agreed(*entries: Any, relation_type: str = "managed_by") -> tuple[Adjustment, ...]:
    return read_adjustments(relation_type, {"pricing_adjustments": list(entries)})


class TestWhatABillComesTo:
    def test_the_example_of_the_requirement(self) -> None:
        """15 % off 1200.00 for the customer, 10 % of what remains for the partner."""
        terms = [term("discount", "0.15"), term("kickback", "0.10", place=1)]
        adjusted = apply({INSTANCE: Decimal("1200.00")}, terms)
        assert amounts(adjusted) == ["discount of 1200.00: -180.00", "kickback of 1020.00: 102.00"]
        assert (adjusted.base, adjusted.net, adjusted.kickback) == (
            Decimal("1200.00"), Decimal("1020.00"), Decimal("102.00"),
        )

    def test_a_discount_of_some_lines_goes_by_what_is_left_of_them(self) -> None:
        """10 % of 520.80; then 20 % of the instances, of which 297.60 - 29.76 = 267.84 are left: 53.568."""
        adjusted = apply(GARDENER, [term("discount", "0.1"), term("discount", "0.2", INSTANCE, relation=2)])
        assert amounts(adjusted) == ["discount of 520.80: -52.08", "discount of 267.84: -53.57"]
        assert adjusted.net == Decimal("415.15")

    def test_surcharges_are_of_the_base_and_discounts_of_all_that_was_added(self) -> None:
        terms = [term("discount", "0.5"), term("surcharge", "0.1", relation=8), term("surcharge", "0.1", relation=9)]
        adjusted = apply({VOLUME: Decimal("100.00")}, terms)
        assert amounts(adjusted) == [
            "surcharge of 100.00: 10.00", "surcharge of 100.00: 10.00", "discount of 120.00: -60.00",
        ]

    def test_a_project_discount_comes_after_every_discount(self) -> None:
        terms = [term("project_discount", "0.5"), term("discount", "0.1", relation=2)]
        assert amounts(apply({VOLUME: Decimal("10.00")}, terms)) == [
            "discount of 10.00: -1.00", "project_discount of 9.00: -4.50",
        ]

    def test_kickbacks_are_of_the_net_and_change_neither_it_nor_each_other(self) -> None:
        terms = [term("kickback", "0.5"), term("kickback", "0.5", relation=2), term("discount", "0.5", relation=3)]
        adjusted = apply({VOLUME: Decimal("10.00")}, terms)
        assert amounts(adjusted)[1:] == ["kickback of 5.00: 2.50"] * 2
        assert (adjusted.net, adjusted.kickback) == (Decimal("5.00"), Decimal("5.00"))

    def test_a_cent_is_rounded_once_where_it_is_shown_and_never_on_the_way(self) -> None:
        """Ten discounts of 5 % of 0.09 leave 0.0539 exactly; of amounts that were rounded, 0.09 would be left."""
        terms = [term("discount", "0.05", relation=n) for n in range(10)]
        adjusted = apply({VOLUME: Decimal("0.09")}, [*terms, term("kickback", "1", relation=99)])
        assert {line.amount for line in adjusted.lines[:-1]} == {Decimal("0.00")}
        assert adjusted.net == Decimal("0.09")
        assert adjusted.kickback == Decimal("0.05")

    def test_half_a_cent_is_rounded_away_from_zero(self) -> None:
        adjusted = apply({VOLUME: Decimal("0.10")}, [term("surcharge", "0.05"), term("discount", "1", SHOOT, 2)])
        assert [str(line.amount) for line in adjusted.lines] == ["0.01", "0.00"]

    def test_without_terms_the_net_is_the_base(self) -> None:
        assert apply(GARDENER, []) == Adjusted((), Decimal("520.80"), Decimal("520.80"), Decimal("0.00"))


COSTS = st.dictionaries(st.sampled_from([INSTANCE, SHOOT, VOLUME]), st.decimals(0, 10**7, places=2))
TERMS = st.lists(
    st.builds(
        term,
        kind=st.sampled_from([str(kind) for kind in AdjustmentType]),
        rate=st.one_of(st.sampled_from(["0", "1", "0.15", "0.5"]), st.decimals(0, 1, places=10).map(str)),
        scope=st.sampled_from(["all", INSTANCE, SHOOT, VOLUME, "hetzner.server"]),
        relation=st.integers(1, 4),
        place=st.integers(0, 3),
    ),
    max_size=8,
    unique_by=lambda found: (found.relation_id, found.place),
)


@given(COSTS, TERMS, st.randoms(use_true_random=False))
def test_whatever_is_agreed_comes_to_what_an_independent_model_says(
    costs: Mapping[str, Decimal], terms: Sequence[Term], random: Random
) -> None:
    """Rule 29 once more: the factors of each type are multiplied for each kind of line, in any order of the terms."""
    shuffled = list(terms)
    random.shuffle(shuffled)
    adjusted = apply(costs, shuffled)
    assert [(line.term, line.amount) for line in adjusted.lines] == modelled(costs, terms)
    paid = [line.amount for line in adjusted.lines if line.term.adjustment.type != "kickback"]
    assert adjusted.net == adjusted.base + sum(paid)
    assert adjusted.base == sum(costs.values())
    assert adjusted.kickback == sum(line.amount for line in adjusted.lines if line.term.adjustment.type == "kickback")


def modelled(costs: Mapping[str, Decimal], terms: Sequence[Term]) -> list[tuple[Term, Decimal]]:
    """Each term's amount as the difference of closed formulas: base x (1 + surcharges) x (1 - d1) x (1 - d2) ..."""
    of = {kind: [t for t in terms if t.adjustment.type == kind] for kind in AdjustmentType}
    key = {t: (t.relation_id.int, t.place) for t in terms}
    discounts = sorted(of[AdjustmentType.DISCOUNT], key=key.__getitem__)
    discounts += sorted(of[AdjustmentType.PROJECT_DISCOUNT], key=key.__getitem__)

    def covers(t: Term, kind: str) -> bool:
        return t.adjustment.scope in ("all", kind)

    def left(kind: str, number: int) -> Fraction:
        added = sum((Fraction(t.adjustment.rate) for t in of[AdjustmentType.SURCHARGE] if covers(t, kind)), Fraction(1))
        for t in discounts[:number]:
            added *= 1 - Fraction(t.adjustment.rate) if covers(t, kind) else 1
        return Fraction(costs[kind]) * added

    def base(t: Term) -> Fraction:
        return sum((Fraction(costs[kind]) for kind in costs if covers(t, kind)), Fraction(0))

    def net(t: Term) -> Fraction:
        return sum((left(kind, len(discounts)) for kind in costs if covers(t, kind)), Fraction(0))

    surcharges, kickbacks = (
        sorted(of[kind], key=key.__getitem__) for kind in (AdjustmentType.SURCHARGE, AdjustmentType.KICKBACK)
    )
    rows = [
        *((t, base(t) * Fraction(t.adjustment.rate)) for t in surcharges),
        *(
            (t, sum((left(kind, number + 1) - left(kind, number) for kind in costs), Fraction(0)))
            for number, t in enumerate(discounts)
        ),
        *((t, net(t) * Fraction(t.adjustment.rate)) for t in kickbacks),
    ]
    return [(t, half_up(amount)) for t, amount in rows]


def half_up(value: Fraction) -> Decimal:
    """Of decimals alone, so that a long enough quotient is exact."""
    with localcontext(prec=400):
        exact = Decimal(value.numerator) / Decimal(value.denominator)
        return exact.quantize(Decimal("0.01"), ROUND_HALF_UP)


class TestWhatRelationsAgreeOn:
    def test_the_form_of_the_requirement_is_read(self) -> None:
        entry = {"type": "discount", "description": "Reseller", "rate": Decimal("0.15"), "scope": INSTANCE}
        assert agreed(entry, {"type": "kickback", "rate": 1}) == (
            Adjustment(AdjustmentType.DISCOUNT, Decimal("0.15"), INSTANCE, "Reseller"),
            Adjustment(AdjustmentType.KICKBACK, Decimal(1), "all", ""),
        )

    def test_metadata_that_speak_of_something_else_agree_on_nothing(self) -> None:
        assert read_adjustments("same_owner", {"note": 1}) == ()

    @pytest.mark.parametrize("relation_type", ["infrastructure_tenant", "same_owner", "image_source"])
    def test_only_relations_that_adjust_agree_on_adjustments(self, relation_type: str) -> None:
        with pytest.raises(InvalidInput, match=f"a relation {relation_type} adjusts no prices; managed_by"):
            agreed({"type": "discount", "rate": 0}, relation_type=relation_type)

    @pytest.mark.parametrize(
        ("changes", "says"),
        [
            ({"rate": 15}, r"\[0\]: rate 15 is not between 0 and 1; 15 % is 0.15"),
            ({"rate": Decimal("-0.1")}, "not between 0 and 1"),
            ({"rate": "0.15"}, "rate '0.15' is not a number"),
            ({"rate": True}, "not a number"),
            ({"rate": None}, "not a number"),
            ({"rate": Decimal("0.00000000001")}, "more than 10 decimals"),
            ({"rate": Decimal("1E-999999")}, "more than 10 decimals"),
            ({"type": "rebate"}, "type 'rebate' is none of surcharge, discount, project_discount, kickback"),
            ({"type": ["discount"]}, "is none of"),
            ({"scope": "instance"}, "neither all nor platform.resource_type"),
            ({"scope": "a.b.c"}, "neither all nor"),
            ({"scope": None}, "neither all nor"),
            ({"percent": 15}, "'percent' is not a key of it; there are type, description, rate, scope"),
            ({"description": 5}, "description is not a text"),
            ({"description": "x" * 501}, "description is not a text"),
        ],
    )
    def test_what_makes_no_sense_is_said(self, changes: dict[str, Any], says: str) -> None:
        with pytest.raises(InvalidInput, match=says):
            agreed({"type": "discount", "rate": Decimal("0.15"), "scope": "all"} | changes)

    def test_all_faults_are_said_together(self) -> None:
        with pytest.raises(InvalidInput, match=r"\[0\]: type.*\[0\]: rate.*\[2\]: it is no"):
            agreed({}, {"type": "discount", "rate": 1}, "10 %")

    @pytest.mark.parametrize("entries", [{"type": "discount"}, "discount", 5, None, [{"type": "discount"}] * 21])
    def test_adjustments_are_a_short_list(self, entries: Any) -> None:
        with pytest.raises(InvalidInput, match="is not a list of at most 20 adjustments"):
            read_adjustments("member_of", {"pricing_adjustments": entries})
