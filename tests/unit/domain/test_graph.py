"""The project graph: which relations count for a period, and where each project is billed (rule 28)."""

from collections.abc import Iterable
from datetime import UTC, datetime
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.domain.errors import InvalidInput, Refused
from tally.domain.graph import (
    Forest,
    Purpose,
    Relation,
    attribute,
    check_relation_type,
    find_cycle,
    refuse_cycle,
    relations_of_period,
)

MARCH, APRIL = datetime(2026, 3, 1, tzinfo=UTC), datetime(2026, 4, 1, tzinfo=UTC)
GARDENER, TENANT, OTHER, DEEP = (UUID(int=number) for number in (1, 2, 3, 4))


def day(month: int, number: int) -> datetime:
    return datetime(2026, month, number, tzinfo=UTC)


def relation(
    number: int,
    source: UUID,
    target: UUID,
    valid_from: datetime = MARCH,
    valid_to: datetime | None = None,
    *,
    version: int = 1,
    relation_type: str = "infrastructure_tenant",
) -> Relation:
    return Relation(UUID(int=1000 + number), version, source, target, relation_type, valid_from, valid_to)


def parents(forest: Forest) -> dict[UUID, UUID | None]:
    return {a.project: a.relation.source if a.relation else None for a in forest.attributions.values()}


class TestRelationTypes:
    def test_each_type_says_what_it_does(self) -> None:
        assert check_relation_type("infrastructure_tenant") is Purpose.ATTRIBUTE
        assert check_relation_type("managed_by") is check_relation_type("member_of") is Purpose.ADJUST
        assert check_relation_type("same_owner") is check_relation_type("image_source") is Purpose.NOTHING

    def test_an_undeclared_type_is_refused_with_the_declared_ones(self) -> None:
        with pytest.raises(InvalidInput, match=r"'owned_by' is not a relation type.*infrastructure_tenant"):
            check_relation_type("owned_by")


class TestRelationsOfAPeriod:
    def test_a_relation_of_one_day_counts_for_the_whole_month(self) -> None:
        short = relation(1, GARDENER, TENANT, day(3, 10), day(3, 11))
        assert relations_of_period([short], MARCH, APRIL) == [short]

    @pytest.mark.parametrize(
        ("valid_from", "valid_to"),
        [
            (day(2, 1), MARCH),            # ended as the month began
            (APRIL, None),                 # began as the month ended
            (day(3, 5), day(3, 5)),        # never valid at any instant
        ],
    )
    def test_a_relation_that_only_touches_the_month_does_not_count(
        self, valid_from: datetime, valid_to: datetime | None
    ) -> None:
        assert relations_of_period([relation(1, GARDENER, TENANT, valid_from, valid_to)], MARCH, APRIL) == []

    def test_closing_in_april_does_not_detach_march(self) -> None:
        """The seed: deleting a shoot in April does not detach its March infrastructure costs."""
        closed = relation(1, GARDENER, TENANT, MARCH, day(4, 7), version=2)
        assert relations_of_period([relation(1, GARDENER, TENANT), closed], MARCH, APRIL) == [closed]

    def test_the_greatest_version_holds_even_if_it_takes_the_relation_out_of_the_period(self) -> None:
        versions = [relation(1, GARDENER, TENANT, day(2, 1), day(2, 9), version=2), relation(1, GARDENER, TENANT)]
        assert relations_of_period(versions, MARCH, APRIL) == []

    def test_of_two_between_the_same_projects_the_later_valid_from_counts(self) -> None:
        earlier, later = relation(1, GARDENER, TENANT, MARCH, day(3, 4)), relation(2, GARDENER, TENANT, day(3, 6))
        assert relations_of_period([earlier, later], MARCH, APRIL) == [later]

    def test_relations_of_two_types_between_the_same_projects_both_count(self) -> None:
        tenant, owner = relation(1, GARDENER, TENANT), relation(2, GARDENER, TENANT, relation_type="same_owner")
        assert relations_of_period([owner, tenant], MARCH, APRIL) == [tenant, owner]


class TestAttribution:
    def test_the_infrastructure_tenant_is_billed_inside_the_gardener_project(self) -> None:
        edge = relation(1, GARDENER, TENANT)
        forest = attribute([GARDENER, TENANT, OTHER], [edge])
        assert forest.roots == [GARDENER, OTHER]
        assert [(a.project, a.relation, a.depth) for a in forest.related(GARDENER)] == [(TENANT, edge, 1)]
        assert forest.warnings == ()

    @pytest.mark.parametrize("relation_type", ["managed_by", "member_of", "same_owner", "image_source"])
    def test_other_relation_types_attribute_nothing(self, relation_type: str) -> None:
        forest = attribute([GARDENER, TENANT], [relation(1, GARDENER, TENANT, relation_type=relation_type)])
        assert forest.roots == [GARDENER, TENANT]

    def test_a_chain_is_billed_inside_its_root_as_a_flat_list(self) -> None:
        forest = attribute([DEEP], [relation(1, GARDENER, TENANT), relation(2, TENANT, DEEP)])
        assert forest.roots == [GARDENER]
        assert [(a.project, a.depth) for a in forest.related(GARDENER)] == [(TENANT, 1), (DEEP, 2)]

    def test_the_shortest_path_wins_over_the_latest_valid_from(self) -> None:
        short = relation(9, GARDENER, DEEP, day(3, 1))
        long = [relation(1, GARDENER, TENANT), relation(2, TENANT, DEEP, day(3, 20))]
        forest = attribute([], [short, *long])
        assert forest.attributions[DEEP].relation == short
        assert [(w.kind, w.project) for w in forest.warnings] == [("several_parents", DEEP)]

    def test_of_equal_paths_the_latest_valid_from_wins(self) -> None:
        late = relation(9, OTHER, TENANT, day(3, 20))
        assert attribute([], [relation(1, GARDENER, TENANT), late]).attributions[TENANT].billed == OTHER

    def test_of_equal_paths_and_dates_the_lower_relation_id_wins(self) -> None:
        edges = [relation(2, GARDENER, TENANT), relation(1, OTHER, TENANT)]
        assert attribute([], edges).attributions[TENANT].billed == OTHER

    def test_a_cycle_is_opened_at_its_lowest_project_with_a_warning(self) -> None:
        forest = attribute([], [relation(1, OTHER, DEEP), relation(2, DEEP, OTHER), relation(3, DEEP, TENANT)])
        assert parents(forest) == {OTHER: None, DEEP: OTHER, TENANT: DEEP}
        assert [(w.kind, w.project) for w in forest.warnings] == [("cycle", OTHER)]

    def test_a_cycle_below_another_cycle_stays_attributed_to_it(self) -> None:
        upper = [relation(1, OTHER, DEEP), relation(2, DEEP, OTHER)]
        lower = [relation(3, GARDENER, TENANT), relation(4, TENANT, GARDENER)]
        forest = attribute([], [*upper, *lower, relation(5, DEEP, TENANT)])
        assert forest.roots == [OTHER]

    def test_a_project_that_claims_itself_is_billed_by_itself(self) -> None:
        forest = attribute([], [relation(1, TENANT, TENANT)])
        assert forest.roots == [TENANT]
        assert [w.kind for w in forest.warnings] == ["cycle"]


class TestCyclesAtCreation:
    def test_a_cycle_is_refused_and_its_path_named(self) -> None:
        known = [relation(1, GARDENER, TENANT), relation(2, TENANT, DEEP)]
        names = {GARDENER: "garden/team", TENANT: "os/tenant", DEEP: "os/deep"}
        with pytest.raises(Refused, match="os/deep -> garden/team -> os/tenant -> os/deep"):
            refuse_cycle(known, relation(3, DEEP, GARDENER), names=names)

    def test_a_second_parent_is_accepted(self) -> None:
        refuse_cycle([relation(1, GARDENER, TENANT)], relation(2, OTHER, TENANT))

    def test_a_relation_to_itself_is_a_cycle(self) -> None:
        assert find_cycle([], relation(1, TENANT, TENANT)) == (TENANT, TENANT)

    def test_two_relations_of_one_month_make_a_cycle_though_they_never_hold_together(self) -> None:
        """Each counts for the whole of March, so March would see both."""
        early = relation(1, GARDENER, TENANT, day(3, 1), day(3, 10))
        late = relation(2, TENANT, GARDENER, day(3, 20))
        assert find_cycle([early], late) == (TENANT, GARDENER, TENANT)

    def test_the_reverse_relation_of_a_later_month_is_no_cycle(self) -> None:
        ended = relation(1, GARDENER, TENANT, day(3, 1), APRIL)
        assert find_cycle([ended], relation(2, TENANT, GARDENER, APRIL)) == ()

    def test_the_zone_of_the_installation_decides_what_a_month_is(self) -> None:
        """23:00 UTC on the last of March is already April in Berlin."""
        ended = relation(1, GARDENER, TENANT, day(3, 1), datetime(2026, 3, 31, 22, tzinfo=UTC))
        begun = relation(2, TENANT, GARDENER, datetime(2026, 3, 31, 23, tzinfo=UTC))
        assert find_cycle([ended], begun, "UTC")
        assert not find_cycle([ended], begun, "Europe/Berlin")

    def test_three_relations_that_share_no_common_month_are_no_cycle(self) -> None:
        known = [relation(1, GARDENER, TENANT, day(3, 1), day(4, 2)), relation(2, TENANT, DEEP, day(4, 3), day(5, 2))]
        assert find_cycle(known, relation(3, DEEP, GARDENER, day(5, 3))) == ()
        assert find_cycle(known, relation(3, DEEP, GARDENER, day(4, 30)))

    def test_only_the_greatest_version_of_what_exists_is_looked_at_and_never_the_one_it_replaces(self) -> None:
        moved = [relation(1, GARDENER, TENANT), relation(1, GARDENER, OTHER, version=2)]
        assert find_cycle(moved, relation(2, TENANT, GARDENER)) == ()
        assert find_cycle([relation(1, GARDENER, TENANT)], relation(1, TENANT, GARDENER, version=2)) == ()

    def test_relations_that_attribute_nothing_make_no_cycle(self) -> None:
        known = [relation(1, GARDENER, TENANT, relation_type="same_owner")]
        assert find_cycle(known, relation(2, TENANT, GARDENER)) == ()
        member = relation(2, TENANT, GARDENER, relation_type="member_of")
        assert find_cycle([relation(1, GARDENER, TENANT)], member) == ()


PROJECTS = [UUID(int=number) for number in range(8)]
RELATIONS = st.lists(
    st.builds(
        relation,
        number=st.integers(0, 30),
        source=st.sampled_from(PROJECTS),
        target=st.sampled_from(PROJECTS),
        valid_from=st.integers(1, 4).map(lambda number: day(3, number)),
        relation_type=st.sampled_from(["infrastructure_tenant"] * 5 + ["same_owner"]),
    ),
    max_size=20,
    unique_by=lambda edge: edge.id,
)


@given(RELATIONS)
def test_every_project_is_billed_exactly_once_whatever_the_relations(edges: list[Relation]) -> None:
    """Rule 28: a forest. Following the relations up from a project ends, after depth steps, at what bills it."""
    forest = attribute(PROJECTS, edges)
    assert list(forest.attributions) == PROJECTS
    billed = [*forest.roots, *(a.project for root in forest.roots for a in forest.related(root))]
    assert sorted(billed) == PROJECTS
    for attribution in forest.attributions.values():
        at = attribution
        for _ in range(attribution.depth):
            assert at.relation is not None
            assert at.relation.target == at.project
            at = forest.attributions[at.relation.source]
        assert at.project == attribution.billed
        assert at.relation is None


@given(RELATIONS, st.randoms(use_true_random=False))
def test_the_order_of_the_relations_decides_nothing(edges: list[Relation], random: object) -> None:
    shuffled = list(edges)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert attribute(PROJECTS[::-1], shuffled) == attribute(PROJECTS, edges)


@given(RELATIONS)
def test_paths_are_shortest_and_only_what_has_no_parent_or_lies_on_a_cycle_heads_a_tree(edges: list[Relation]) -> None:
    """Compared with distances found by relaxing every edge until nothing changes."""
    forest = attribute(PROJECTS, edges)
    pairs = [(edge.source, edge.target) for edge in edges if edge.attributes and edge.source != edge.target]
    distances = relaxed(forest.roots, pairs)
    assert {a.project: a.depth for a in forest.attributions.values()} == distances
    opened = {warning.project for warning in forest.warnings if warning.kind == "cycle"}
    for root in forest.roots:
        assert root in opened or root not in {target for _, target in pairs}
        if root in {target for _, target in pairs}:
            assert root in {target for source, target in pairs if source in relaxed([root], pairs)}


@given(RELATIONS)
def test_relations_created_under_the_cycle_rule_never_need_a_cycle_opened(edges: list[Relation]) -> None:
    accepted: list[Relation] = []
    for edge in edges:
        if not find_cycle(accepted, edge):
            accepted.append(edge)
    forest = attribute(PROJECTS, relations_of_period(accepted, MARCH, APRIL))
    assert [warning for warning in forest.warnings if warning.kind == "cycle"] == []


def relaxed(roots: Iterable[UUID], pairs: list[tuple[UUID, UUID]]) -> dict[UUID, int]:
    distances = dict.fromkeys(roots, 0)
    for _ in range(len(PROJECTS)):
        for source, target in pairs:
            if source in distances:
                distances[target] = min(distances[source] + 1, distances.get(target, len(PROJECTS)))
    return distances


@pytest.mark.parametrize("zone", ["America/New_York", "Pacific/Kiritimati"])
@pytest.mark.parametrize("instant", [datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
def test_cycles_are_found_up_to_the_ends_of_the_calendar(zone: str, instant: datetime) -> None:
    """Whose months in some zones lie outside it."""
    one, other = UUID(int=1), UUID(int=2)
    there = Relation(UUID(int=3), 1, one, other, "infrastructure_tenant", instant)
    back = Relation(UUID(int=4), 1, other, one, "infrastructure_tenant", instant)
    assert find_cycle([there], back, zone) == (other, one, other)
