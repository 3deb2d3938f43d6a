"""Reaching projects along relations: compared with a search that tries every path."""

from datetime import UTC, datetime
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from tally.domain.graph import Relation
from tally.domain.reach import reach

MARCH = datetime(2026, 3, 1, tzinfo=UTC)
START = UUID(int=0)
_ENDS = st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda ends: ends[0] != ends[1])


def relation(number: int, source: int, target: int) -> Relation:
    return Relation(UUID(int=100 + number), 1, UUID(int=source), UUID(int=target), "same_owner", MARCH)


def every_path(relations: list[Relation], depth: int) -> list[tuple[Relation, ...]]:
    """All paths from the start that visit nothing twice and are no longer than ``depth``."""
    paths: list[tuple[Relation, ...]] = []
    front: list[tuple[Relation, ...]] = [()]
    for _ in range(depth):
        front = [
            (*path, step)
            for path in front
            for step in relations
            if step.source == (path[-1].target if path else START)
            and step.target not in {START, *(visited.target for visited in path)}
        ]
        paths += front
    return paths


@given(st.lists(_ENDS, max_size=12), st.integers(1, 5))
def test_each_project_is_reached_once_by_the_shortest_path_of_the_lowest_ids(
    ends: list[tuple[int, int]], depth: int
) -> None:
    relations = [relation(number, source, target) for number, (source, target) in enumerate(ends)]
    best: dict[UUID, tuple[Relation, ...]] = {}
    for path in sorted(every_path(relations, depth), key=lambda path: (len(path), [step.id for step in path])):
        best.setdefault(path[-1].target, path)
    reached = reach(reversed(relations), START, depth)
    assert [row.depth for row in reached] == sorted(len(path) for path in best.values())
    assert {row.project: row.path for row in reached} == best


def test_nothing_is_reached_against_the_direction() -> None:
    assert reach([relation(1, 1, 0)], START, 20) == []
