"""Whatever relations come and go, each minute of each resource is on exactly one bill, and no cent is lost (rule 28).

Random histories of relations: opened, closed and reopened in the middle of months, moved by later versions, to several
parents, in cycles that no single instant sees. What each month makes of them is billed, and added up.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from json import loads
from typing import Any
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st

from pricing.bill import LineItems, ProjectRef, RelatedProject, build_bill
from pricing.model import Formula, Price, PriceVersion
from pricing.rating import Rate
from tally.domain.graph import Forest, Relation, attribute, find_cycle, latest_versions, relations_of_period
from tally.domain.period import BillingPeriod
from tests.unit.pricing.bill_model import Record, line_items

PROJECTS = [UUID(int=number) for number in range(1, 7)]
REFS = {project: ProjectRef("cloud", f"project-{project.int}", "cluster") for project in PROJECTS}
MONTHS = [BillingPeriod.parse(f"2026-{month:02}") for month in (2, 3, 4)]
PRICE = Price("cluster", "task", "cpus", Formula.TIME_GAUGE, Decimal(1))
VERSION = PriceVersion("2026", MONTHS[0].start.date(), None, "EUR", (PRICE,))
JANUARY = datetime(2026, 1, 10, tzinfo=UTC)
INSTANTS = st.integers(0, 12).map(lambda number: JANUARY + number * timedelta(days=10))


@st.composite
def histories(draw: st.DrawFn) -> list[Relation]:
    """All versions of some relations, each accepted or not by the rule that guards their creation."""
    written: list[Relation] = []
    guarded = draw(st.booleans())
    for number in range(draw(st.integers(0, 12))):
        ends = st.sampled_from(PROJECTS)
        start, length = draw(INSTANTS), draw(st.one_of(st.none(), st.integers(0, 60)))
        end = None if length is None else start + timedelta(days=length)
        relation = Relation(
            UUID(int=100 + number), 1, draw(ends), draw(ends), draw(st.sampled_from(["infrastructure_tenant"] * 4 + [
                "member_of"])), start, end,
        )
        changed = draw(st.sampled_from([relation, *written]))   # a new one, or another version of one
        if changed is not relation:
            newest = max((one for one in written if one.id == changed.id), key=lambda one: one.version)
            relation = replace(newest, version=newest.version + 1, valid_from=start, valid_to=end)
        if not (guarded and find_cycle(written, relation)):
            written.append(relation)
    return written


COSTS = st.fixed_dictionaries({project: st.lists(st.integers(0, 10**6), max_size=3) for project in PROJECTS})


@settings(max_examples=60)
@given(histories(), COSTS)
def test_the_bills_of_a_month_add_up_to_its_costs_and_have_each_resource_once(
    written: list[Relation], cents: Mapping[UUID, Sequence[int]]
) -> None:
    """A project without usage has no part in it; every other one is on one bill, with all of its resources."""
    for month in MONTHS:
        forest = attribute(PROJECTS, relations_of_period(written, month.start, month.end))
        bills = [billed(month, forest, root, cents) for root in forest.roots]
        assert sum(bill["total"] for bill in bills) == Decimal(sum(map(sum, cents.values()))) / 100
        resources = Counter(resource for bill in bills for resource in resources_of(bill))
        expected = [f"{project.int}/{place}" for project in PROJECTS for place in range(len(cents[project]))]
        assert resources == Counter(expected)
        assert list(forest.attributions) == PROJECTS


@settings(max_examples=60)
@given(histories())
def test_what_had_to_be_decided_is_warned_about_and_nothing_else(written: list[Relation]) -> None:
    """Several parents within the month, though never at one instant; cycles only where nothing guarded against them."""
    for month in MONTHS:
        counting = [one for one in relations_of_period(written, month.start, month.end) if one.attributes]
        parents = {p: {one.source for one in counting if one.target == p and one.source != p} for p in PROJECTS}
        forest = attribute(PROJECTS, counting)
        warned = {warning.project for warning in forest.warnings if warning.kind == "several_parents"}
        assert warned == {project for project, found in parents.items() if len(found) > 1}
        cut = {project for project, found in parents.items() if found and forest.attributions[project].relation is None}
        assert cut <= {warning.project for warning in forest.warnings if warning.kind == "cycle"}


@settings(max_examples=60)
@given(histories())
def test_a_month_sees_the_last_version_of_what_was_valid_at_any_instant_of_it(written: list[Relation]) -> None:
    """The whole month, however short the relation; between two projects only the one that began last."""
    for month in MONTHS:
        alive = [
            one for one in latest_versions(written)
            if one.valid_from < month.end and (one.valid_to is None or one.valid_to > max(month.start, one.valid_from))
        ]
        counting = relations_of_period(written, month.start, month.end)
        ends = [(one.source, one.target, one.type) for one in counting]
        assert set(ends) == {(one.source, one.target, one.type) for one in alive}
        assert len(set(ends)) == len(ends)
        for chosen in counting:
            rivals = [o for o in alive if (o.source, o.target, o.type) == (chosen.source, chosen.target, chosen.type)]
            assert chosen in rivals
            assert chosen.valid_from == max(rival.valid_from for rival in rivals)


def tenant(number: int, source: int, start: tuple[int, int], end: tuple[int, int] | None, version: int = 1) -> Relation:
    first = datetime(2026, *start, tzinfo=UTC)
    last = None if end is None else datetime(2026, *end, tzinfo=UTC)
    return Relation(UUID(int=number), version, UUID(int=source), UUID(int=3), "infrastructure_tenant", first, last)


def payers(written: list[Relation]) -> list[int]:
    """Who pays for the project 3 in February, March and April."""
    return [
        attribute(PROJECTS, relations_of_period(written, month.start, month.end)).attributions[UUID(int=3)].billed.int
        for month in MONTHS
    ]


def test_a_parent_that_changes_in_the_middle_of_a_month_pays_from_that_month_on() -> None:
    assert payers([tenant(1, 1, (1, 1), (3, 16)), tenant(2, 2, (3, 16), None)]) == [1, 2, 2]


def test_a_relation_that_is_closed_and_opened_again_counts_for_every_month_that_it_touches() -> None:
    assert payers([tenant(1, 1, (2, 1), (2, 3)), tenant(2, 1, (4, 30), None)]) == [1, 3, 1]


def test_a_version_that_takes_a_relation_back_takes_it_out_of_every_month() -> None:
    assert payers([tenant(1, 1, (1, 1), None), tenant(1, 1, (4, 1), None, version=2)]) == [3, 3, 1]


def billed(month: BillingPeriod, forest: Forest, root: UUID, cents: Mapping[UUID, Sequence[int]]) -> dict[str, Any]:
    related = [
        RelatedProject(a.relation.type, REFS[a.project], items(month, a.project, cents[a.project]))
        for a in forest.related(root)
        if a.relation is not None
    ]
    bill = build_bill(month.start, month.end, REFS[root], items(month, root, cents[root]), related, "EUR")
    document: dict[str, Any] = loads(bill.document, parse_float=Decimal)
    assert document["total"] == bill.total
    return document


def items(month: BillingPeriod, project: UUID, cents: Sequence[int]) -> list[LineItems]:
    one = Decimal(1)
    rates = [Rate("cpus", one, one, one, one, Decimal(amount) / 100, Decimal(amount) / 100, "EUR") for amount in cents]
    records = [
        Record("task", f"{project.int}/{place}", "active", month.start, month.end, {"cpus": 1}, [rate])
        for place, rate in enumerate(rates)
    ]
    return line_items(records, "cluster", VERSION)


def resources_of(bill: dict[str, Any]) -> list[str]:
    parts = [bill, *bill["related_costs"]]
    return [item["resource_id"] for part in parts for item in part["line_items"]]
