"""Which relations adjust the price of a project (rule 29)."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tally.domain.graph import Relation
from tally.domain.groups import AdjustingRelations

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
PROJECT, TEAM, CUSTOMER, PARTNER, OTHER = PROJECTS = [UUID(int=number) for number in range(1, 6)]


def relation(number: int, source: UUID, target: UUID, relation_type: str = "member_of") -> Relation:
    return Relation(UUID(int=1000 + number), 1, source, target, relation_type, MARCH)


def ids(relations: list[Relation], project: UUID) -> list[int]:
    return [found.id.int - 1000 for found in AdjustingRelations(relations).of(project)]


def test_a_project_has_its_own_relations_and_those_of_its_groups_to_any_depth() -> None:
    """A group of a group may be managed by a partner of its own."""
    known = [
        relation(9, PROJECT, TEAM),
        relation(8, TEAM, CUSTOMER),
        relation(7, CUSTOMER, PARTNER, "managed_by"),
        relation(6, PROJECT, OTHER, "managed_by"),
    ]
    assert ids(known, PROJECT) == [6, 7, 8, 9]
    assert ids(known, TEAM) == [7, 8]


def test_who_manages_a_project_brings_no_agreements_of_its_own() -> None:
    """Only member_of leads on: what a partner has agreed on with others does not concern its customers."""
    known = [relation(1, PROJECT, PARTNER, "managed_by"), relation(2, PARTNER, OTHER, "managed_by")]
    assert ids(known, PROJECT) == [1]


def test_a_relation_that_is_reached_on_two_ways_applies_once() -> None:
    known = [
        relation(1, PROJECT, TEAM),
        relation(2, PROJECT, OTHER),
        relation(3, TEAM, CUSTOMER),
        relation(4, OTHER, CUSTOMER),
        relation(5, CUSTOMER, PARTNER, "managed_by"),
    ]
    assert ids(known, PROJECT) == [1, 2, 3, 4, 5]


def test_groups_that_are_members_of_each_other_end() -> None:
    known = [relation(1, PROJECT, TEAM), relation(2, TEAM, CUSTOMER), relation(3, CUSTOMER, TEAM)]
    assert ids(known, PROJECT) == [1, 2, 3]


def test_a_member_does_not_adjust_its_group_nor_a_tenant_its_payer() -> None:
    known = [
        relation(1, PROJECT, TEAM),
        relation(2, PROJECT, PARTNER, "managed_by"),
        relation(3, TEAM, OTHER, "infrastructure_tenant"),
        relation(4, OTHER, PARTNER, "managed_by"),
    ]
    assert ids(known, TEAM) == []


@given(
    st.lists(
        st.builds(
            relation,
            number=st.integers(0, 40),
            source=st.sampled_from(PROJECTS),
            target=st.sampled_from(PROJECTS),
            relation_type=st.sampled_from(["member_of", "member_of", "managed_by", "same_owner"]),
        ),
        max_size=15,
        unique_by=lambda found: found.id,
    )
)
def test_what_applies_is_what_starts_at_the_project_or_at_a_group_above_it(relations: list[Relation]) -> None:
    """Compared with groups found by adding one step of membership until nothing is added."""
    for project in PROJECTS:
        above = {project}
        while more := {r.target for r in relations if r.type == "member_of" and r.source in above} - above:
            above |= more
        expected = {r.id.int - 1000 for r in relations if r.source in above and r.type in ("member_of", "managed_by")}
        assert ids(relations, project) == sorted(expected)
