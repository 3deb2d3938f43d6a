"""The project graph: what relations do, and which project is billed inside whose bill (rule 28).

Projects are their registry ids here; names, storage and the adjustments that relations carry are others' business.
An attributing relation points from the project that pays to the project whose costs it takes over: the Gardener project
is the source, its infrastructure tenant the target.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from math import inf
from typing import Any, Literal
from uuid import UUID
from zoneinfo import ZoneInfo

from tally.domain.errors import InvalidInput, Refused
from tally.domain.instants import MICROSECOND

_END_OF_TIME = datetime.max.replace(tzinfo=UTC)


class Purpose(StrEnum):
    """What a relation type does to bills."""

    ATTRIBUTE = "attribute"   # the target is billed inside the bill of the source
    ADJUST = "adjust"         # its metadata changes the price of the source
    NOTHING = "nothing"       # it is kept, and read by people


RELATION_TYPES: Mapping[str, Purpose] = {
    "infrastructure_tenant": Purpose.ATTRIBUTE,
    "managed_by": Purpose.ADJUST,
    "member_of": Purpose.ADJUST,
    "same_owner": Purpose.NOTHING,
    "image_source": Purpose.NOTHING,
}


@dataclass(frozen=True, slots=True)
class Relation:
    """One version of a directed relation; ``valid_to`` is exclusive, None means that it is open.

    One that ends where it begins is annulled: it never counts.
    """

    id: UUID
    version: int
    source: UUID
    target: UUID
    type: str
    valid_from: datetime
    valid_to: datetime | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict, hash=False)
    reason: str | None = None   # why this version was written; needed where it touches a finalized period

    @property
    def attributes(self) -> bool:
        """Whether the target is billed inside the bill of the source."""
        return RELATION_TYPES.get(self.type) is Purpose.ATTRIBUTE

    def intersects(self, start: datetime, end: datetime) -> bool:
        """Whether it is valid at any instant of [start, end)."""
        return max(self.valid_from, start) < (end if self.valid_to is None else min(self.valid_to, end))


@dataclass(frozen=True, slots=True)
class Attribution:
    """Where one project is billed: by itself (no relation, depth 0), or inside the bill of the root of its tree."""

    project: UUID
    billed: UUID                # the root of the tree; the project itself if nothing attributes it
    relation: Relation | None   # the one that attributes it to its parent
    depth: int                  # steps from the root


@dataclass(frozen=True, slots=True)
class GraphWarning:
    """Something in the relations that had to be decided by rule, and that a person should mend."""

    kind: Literal["several_parents", "cycle"]
    project: UUID
    detail: str


@dataclass(frozen=True, slots=True)
class Forest:
    """The attribution of a period: every project exactly once, and what had to be decided on the way."""

    attributions: Mapping[UUID, Attribution]
    warnings: tuple[GraphWarning, ...] = ()

    def related(self, root: UUID) -> list[Attribution]:
        """List what is billed inside the bill of a root, the root left out, in the order of project ids."""
        return [a for a in self.attributions.values() if a.billed == root and a.relation is not None]

    @property
    def roots(self) -> list[UUID]:
        """List the projects that get a bill of their own, in the order of their ids."""
        return [a.project for a in self.attributions.values() if a.relation is None]


def check_relation_type(name: str) -> Purpose:
    """Return what a relation type does.

    Raises:
        InvalidInput: if it is not declared.
    """
    purpose = RELATION_TYPES.get(name)
    if purpose is None:
        raise InvalidInput(f"{name[:60]!r} is not a relation type; declared are {', '.join(RELATION_TYPES)}")
    return purpose


def latest_versions(relations: Iterable[Relation]) -> list[Relation]:
    """Keep the greatest version of each relation, in the order of their ids."""
    latest: dict[UUID, Relation] = {}
    for relation in relations:
        if relation.id not in latest or relation.version > latest[relation.id].version:
            latest[relation.id] = relation
    return [latest[key] for key in sorted(latest)]


def relations_of_period(relations: Iterable[Relation], start: datetime, end: datetime) -> list[Relation]:
    """Choose the relations that count for the whole of [start, end), from all versions of all relations.

    A relation counts if its greatest version is valid at any instant of the period. Of several between the same two
    projects and of one type, the latest valid_from counts; of several of one valid_from, the lower id.
    """
    chosen: dict[tuple[UUID, UUID, str], Relation] = {}
    for relation in sorted(latest_versions(relations), key=_precedence):
        if relation.intersects(start, end):
            chosen.setdefault((relation.source, relation.target, relation.type), relation)
    return sorted(chosen.values(), key=lambda relation: relation.id)


def attribute(projects: Collection[UUID], relations: Iterable[Relation]) -> Forest:
    """Decide for every project where it is billed, given the relations that count for the period.

    Of several parents, the shortest path to a root wins, then the latest valid_from, then the lower relation id.
    A cycle is opened at its lowest project id, which then is billed by itself. Projects that only relations know are
    decided too.
    """
    edges = sorted((relation for relation in relations if relation.attributes), key=lambda relation: relation.id)
    graph = _Graph([relation for relation in edges if relation.source != relation.target])
    nodes = sorted({*projects, *(relation.source for relation in edges), *(relation.target for relation in edges)})
    heads = _heads_of_cycles(nodes, graph)
    depths = graph.depths([node for node in nodes if node in heads or not graph.incoming.get(node)])
    winners = {node: graph.winner(node, depths) for node in nodes}
    billed: dict[UUID, UUID] = {}
    for node in sorted(nodes, key=depths.__getitem__):   # parents come before their children
        winner = winners[node]
        billed[node] = node if winner is None else billed[winner.source]
    warnings = [
        *(_opened_cycle(relation.source) for relation in edges if relation.source == relation.target),
        *(_opened_cycle(node) for node in nodes if node in heads),
        *(_several_parents(node, winners[node]) for node in nodes if graph.parents(node) > 1),
    ]
    attributions = {node: Attribution(node, billed[node], winners[node], depths[node]) for node in nodes}
    return Forest(attributions, tuple(sorted(set(warnings), key=lambda warning: (warning.kind, warning.project))))


def find_cycle(relations: Iterable[Relation], candidate: Relation, zone: str = "UTC") -> tuple[UUID, ...]:
    """Return the projects along a cycle that a new relation (or a new version of one) would close, or ().

    The path starts and ends at the source of the candidate. Relations make a cycle if one billing period of the zone
    sees them all, even where their validities do not touch: each counts for the whole of its periods.
    """
    span = _months(candidate, zone)
    if not candidate.attributes or span is None:
        return ()
    spans = []
    for relation in latest_versions(relations):
        months = _months(relation, zone)
        if relation.attributes and relation.id != candidate.id and months is not None:
            spans.append((months, relation))
    # Spans that share a month share the first month of one of them, so only these months need a look.
    firsts = {span[0], *(months[0] for months, _ in spans)}
    for month in sorted(first for first in firsts if span[0] <= first <= span[1]):
        alive = [relation for (first, last), relation in spans if first <= month <= last]
        path = _Graph(alive).path(candidate.target, candidate.source)
        if path:
            return (candidate.source, *path)
    return ()


def refuse_cycle(
    relations: Iterable[Relation], candidate: Relation, zone: str = "UTC", names: Mapping[UUID, str] | None = None
) -> None:
    """Raise Refused, naming the path, if a new relation would close a cycle of attribution in any billing period."""
    path = find_cycle(relations, candidate, zone)
    if path:
        readable = " -> ".join((names or {}).get(project, str(project)) for project in path)
        raise Refused(
            f"relation {candidate.type}",
            [f"it would close the cycle {readable} within one billing period; close one of these relations first"],
        )


class _Graph:
    """Attributing relations by their ends."""

    def __init__(self, relations: Iterable[Relation]) -> None:
        incoming, outgoing = defaultdict(list), defaultdict(list)
        for relation in relations:
            incoming[relation.target].append(relation)
            outgoing[relation.source].append(relation)
        self.incoming: Mapping[UUID, list[Relation]] = dict(incoming)
        self.outgoing: Mapping[UUID, list[Relation]] = dict(outgoing)

    def parents(self, node: UUID) -> int:
        """Count the projects that claim a project."""
        return len({relation.source for relation in self.incoming.get(node, ())})

    def depths(self, roots: Iterable[UUID]) -> dict[UUID, int]:
        """Return the steps from the nearest root to all that can be reached."""
        depths = dict.fromkeys(roots, 0)
        queue = list(depths)
        for node in queue:
            for relation in self.outgoing.get(node, ()):
                if relation.target not in depths:
                    depths[relation.target] = depths[node] + 1
                    queue.append(relation.target)
        return depths

    def winner(self, node: UUID, depths: Mapping[UUID, int]) -> Relation | None:
        """Return the relation that attributes a project; None for a root."""
        if depths[node] == 0:
            return None
        return min((r for r in self.incoming[node] if depths[r.source] == depths[node] - 1), key=_precedence)

    def ancestors(self, node: UUID) -> set[UUID]:
        """Return all from which a project can be reached, itself included."""
        return set(_walk(node, lambda at: [relation.source for relation in self.incoming.get(at, ())]))

    def descendants(self, node: UUID) -> set[UUID]:
        """Return all that can be reached from a project, itself included."""
        return set(self._steps(node))

    def path(self, start: UUID, goal: UUID) -> tuple[UUID, ...]:
        """Return a shortest path, both ends included, or ()."""
        before = self._steps(start)
        path = [goal] if goal in before else []
        while path and path[-1] != start:
            path.append(before[path[-1]])
        return tuple(reversed(path))

    def _steps(self, node: UUID) -> dict[UUID, UUID]:
        return _walk(node, lambda at: [relation.target for relation in self.outgoing.get(at, ())])


def _walk(start: UUID, neighbours: Callable[[UUID], Iterable[UUID]]) -> dict[UUID, UUID]:
    """Visit all that can be reached, nearest first; returns the step before each (the start comes before itself)."""
    before = {start: start}
    queue = [start]
    for node in queue:
        for neighbour in neighbours(node):
            if neighbour not in before:
                before[neighbour] = node
                queue.append(neighbour)
    return before


def _heads_of_cycles(nodes: Sequence[UUID], graph: _Graph) -> set[UUID]:
    """Return the lowest project of each cycle that no root reaches: without a head, nobody would be billed for it."""
    reached = set(graph.depths(node for node in nodes if not graph.incoming.get(node)))
    heads = set()
    for node in nodes:
        if node not in reached:
            head = _topmost(node, graph)
            heads.add(head)
            reached |= graph.descendants(head)
    return heads


def _topmost(node: UUID, graph: _Graph) -> UUID:
    """Climb from a project that no root reaches to the cycle above all others, and return its lowest id."""
    above = graph.ancestors(node)
    while higher := above - graph.descendants(node):
        node = min(higher)
        above = graph.ancestors(node)
    return min(above)


def _precedence(relation: Relation) -> tuple[timedelta, UUID]:
    """Order relations so that the latest valid_from comes first, then the lower id."""
    return (_END_OF_TIME - relation.valid_from, relation.id)


def _months(relation: Relation, zone: str) -> tuple[int, float] | None:
    """Return the first and the last month that a relation is valid in, counted from year 0; None if it never is."""
    if relation.valid_to is None:
        return (_month(relation.valid_from, zone), inf)
    if relation.valid_to <= relation.valid_from:
        return None
    return (_month(relation.valid_from, zone), _month(relation.valid_to - MICROSECOND, zone))


def _month(instant: datetime, zone: str) -> int:
    try:
        local = instant.astimezone(ZoneInfo(zone))
    except OverflowError:  # the first or the last hours of the calendar, whose month in the zone lies outside it
        local = instant
    return local.year * 12 + local.month - 1


def _opened_cycle(node: UUID) -> GraphWarning:
    return GraphWarning("cycle", node, "its attribution goes round in a circle; it is billed by itself")


def _several_parents(node: UUID, winner: Relation | None) -> GraphWarning:
    decision = "billed by itself" if winner is None else f"attributed to {winner.source} by relation {winner.id}"
    return GraphWarning("several_parents", node, f"several projects claim it; it is {decision}")
