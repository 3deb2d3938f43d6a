"""Related projects: along outgoing relations, each once by its shortest path, whatever cycles there are (rule 28)."""

from datetime import datetime
from uuid import UUID, uuid4

import pytest

from tally.domain.errors import InvalidInput, NotFound
from tally.services.related import RelatedProject, related
from tally.services.relations import close_relation
from tally.store.database import Connection
from tests.integration.registering import TENANT, change, connect, create, day

NOW = day("2026-06-01")


@pytest.fixture
def projects(reporting: Connection) -> dict[str, UUID]:
    """Five registered projects."""
    return {name: create(reporting, name).id for name in "abcde"}


def names(rows: list[RelatedProject]) -> list[tuple[str, int]]:
    """The projects with their depths."""
    return [(row.project.external_id, row.depth) for row in rows]


def test_relations_are_followed_from_source_to_target(reporting: Connection, projects: dict[str, UUID]) -> None:
    """As deep as asked; the path says by which relations."""
    first, second = connect(reporting, "a", "b"), connect(reporting, "b", "c")
    connect(reporting, "d", "a")
    assert names(related(reporting, projects["a"], at=NOW)) == [("b", 1)]
    [nearest, farthest] = related(reporting, projects["a"], at=NOW, depth=2)
    assert (nearest.path, farthest.path) == ((first,), (first, second))
    assert names(related(reporting, projects["c"], at=NOW, depth=20)) == []


def test_cycles_end(reporting: Connection, projects: dict[str, UUID]) -> None:
    """Relations that attribute nothing may go round in a circle; the project itself never comes back."""
    for source, target in ("ab", "bc", "ca", "cd", "da"):
        connect(reporting, source, target, relation_type="same_owner")
    rows = related(reporting, projects["a"], at=NOW, depth=20)
    assert names(rows) == [("b", 1), ("c", 2), ("d", 3)]


def test_the_shortest_path_is_told(reporting: Connection, projects: dict[str, UUID]) -> None:
    """A project comes once, however many ways lead to it; projects of one depth come by address."""
    for source, target in ("ae", "ab", "bc", "ec", "cd"):
        connect(reporting, source, target)
    short = connect(reporting, "a", "d", relation_type="same_owner")
    rows = related(reporting, projects["a"], at=NOW, depth=3)
    assert names(rows) == [("b", 1), ("d", 1), ("e", 1), ("c", 2)]
    assert rows[1].path == (short,)
    assert names(related(reporting, projects["a"], at=NOW, depth=3, relation_type=TENANT)) == [
        ("b", 1), ("e", 1), ("c", 2), ("d", 3),
    ]


@pytest.mark.parametrize(
    ("at", "found"),
    [("2026-01-31", []), ("2026-02-01", ["b"]), ("2026-02-28", ["b"]), ("2026-03-01", [])],
)
def test_relations_are_those_of_an_instant(
    reporting: Connection, projects: dict[str, UUID], at: str, found: list[str]
) -> None:
    """Valid from the beginning (inclusive) to the end (exclusive), by the version that holds."""
    relation = connect(reporting, "a", "b", "2026-02-01")
    close_relation(reporting, relation.id, day("2026-03-01"), change())
    assert [row.project.external_id for row in related(reporting, projects["a"], at=day(at))] == found


def test_foreign_projects_are_neither_shown_nor_passed_through(
    reporting: Connection, projects: dict[str, UUID]
) -> None:
    """What lies behind a foreign project would tell of it."""
    for source, target in ("ab", "bc", "ad"):
        connect(reporting, source, target)
    visible = {("os", "a"), ("os", "c"), ("os", "d")}
    assert names(related(reporting, projects["a"], at=NOW, depth=5, visible=visible)) == [("d", 1)]
    with pytest.raises(NotFound):
        related(reporting, projects["b"], at=NOW, visible=visible)


@pytest.mark.parametrize("depth", [0, 21])
def test_what_makes_no_sense_is_refused(reporting: Connection, projects: dict[str, UUID], depth: int) -> None:
    """A depth from 1 to 20, a declared type, an instant with a zone, a project that exists."""
    with pytest.raises(InvalidInput, match="between 1 and 20"):
        related(reporting, projects["a"], at=NOW, depth=depth)
    with pytest.raises(InvalidInput, match="cousin_of"):
        related(reporting, projects["a"], at=NOW, relation_type="cousin_of")
    with pytest.raises(InvalidInput, match="zone"):
        related(reporting, projects["a"], at=datetime(2026, 6, 1))  # noqa: DTZ001 - that is the fault
    with pytest.raises(NotFound):
        related(reporting, uuid4(), at=NOW)
