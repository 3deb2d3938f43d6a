"""Which relations adjust the price of a project: its own, and those of the groups that it belongs to (rule 29).

What they agree on is read by pricing.adjustments; who pays for whom is graph.py's.
"""

from collections import defaultdict
from collections.abc import Iterable
from uuid import UUID

from tally.domain.graph import RELATION_TYPES, Purpose, Relation

MEMBERSHIP = "member_of"


class AdjustingRelations:
    """The relations of a period that adjust prices, to be asked project by project."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        """Keep those that adjust, of all relations that count for the period."""
        self._by_source: defaultdict[UUID, list[Relation]] = defaultdict(list)
        for relation in relations:
            if RELATION_TYPES.get(relation.type) is Purpose.ADJUST:
                self._by_source[relation.source].append(relation)

    def of(self, project: UUID) -> list[Relation]:
        """List the relations of a project and, through member_of, of its groups to any depth: each once, by their ids.

        Groups that are members of each other end nowhere, and do no harm.
        """
        found: list[Relation] = []
        queue = [project]
        seen = {project}
        for member in queue:
            for relation in self._by_source.get(member, ()):
                found.append(relation)
                if relation.type == MEMBERSHIP and relation.target not in seen:
                    seen.add(relation.target)
                    queue.append(relation.target)
        return sorted(found, key=lambda relation: relation.id)

    def own(self, project: UUID) -> list[Relation]:
        """List the relations that a project itself is the source of, by their ids."""
        return sorted(self._by_source.get(project, ()), key=lambda relation: relation.id)
