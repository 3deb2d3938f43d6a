"""Where relations lead from a project: reading only, and at one instant. Who pays for whom is tally.domain.graph's."""

from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from tally.domain.errors import InvalidInput
from tally.domain.graph import Relation, check_relation_type
from tally.domain.principal import ProjectKey
from tally.domain.project import Project
from tally.domain.reach import reach
from tally.services.projects import get_project
from tally.store.database import Connection
from tally.store.reporting import projects as project_store
from tally.store.reporting import relations as relation_store

MAX_DEPTH = 20


@dataclass(frozen=True, slots=True)
class RelatedProject:
    """A project that can be reached from another one, and the relations on a shortest way to it."""

    project: Project
    path: tuple[Relation, ...]

    @property
    def depth(self) -> int:
        """How many relations lead to it."""
        return len(self.path)


def related(
    connection: Connection,
    project: UUID,
    *,
    at: datetime,
    depth: int = 1,
    relation_type: str | None = None,
    visible: Collection[ProjectKey] | None = None,
) -> list[RelatedProject]:
    """Return the projects to which relations lead from a project, nearest first, then by address.

    Relations are followed from their source to their target, if they are valid at ``at``; each project comes once, by a
    shortest way, whatever cycles there are. ``visible``: other projects are neither shown nor passed through.

    Raises:
        InvalidInput: if the depth is not 1 to 20, the type is not declared, or the instant has no zone.
        NotFound: if there is no such project among the visible ones.
    """
    if not 1 <= depth <= MAX_DEPTH:
        raise InvalidInput(f"depth {depth} is not between 1 and {MAX_DEPTH}")
    if relation_type is not None:
        check_relation_type(relation_type)
    get_project(connection, project, visible)
    if at.tzinfo is None:
        raise InvalidInput("at has no zone; write an instant such as 2026-03-01T00:00:00Z")
    relations = relation_store.select_relations(connection, relation_type=relation_type, at=at, visible=visible)
    found = {reached.project: reached for reached in reach(relations, project, depth)}
    projects = project_store.projects_of(connection, found)
    return sorted((RelatedProject(row, found[row.id].path) for row in projects), key=lambda related: related.depth)
