"""Which projects can be reached from one by relations of any type. Who pays for whom is tally.domain.graph's."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from tally.domain.graph import Relation


@dataclass(frozen=True, slots=True)
class Reached:
    """A project, and the shortest way to it."""

    project: UUID
    path: tuple[Relation, ...]   # from the start to the project, each relation from its source to its target

    @property
    def depth(self) -> int:
        """How many relations the way has."""
        return len(self.path)


def reach(relations: Iterable[Relation], start: UUID, depth: int) -> list[Reached]:
    """Return what can be reached from ``start`` in at most ``depth`` steps from source to target, nearest first.

    Each project comes once, by a shortest way, and the start never, so that cycles end. Of several shortest ways, the
    one whose relations have the lower ids is taken.
    """
    outgoing: dict[UUID, list[Relation]] = defaultdict(list)
    for relation in sorted(relations, key=lambda relation: relation.id):
        outgoing[relation.source].append(relation)
    found = {start: Reached(start, ())}
    queue = [found[start]]
    for at in queue:
        for relation in outgoing[at.project] if at.depth < depth else ():
            if relation.target not in found:
                found[relation.target] = Reached(relation.target, (*at.path, relation))
                queue.append(found[relation.target])
    return queue[1:]
