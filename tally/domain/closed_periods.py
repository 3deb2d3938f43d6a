"""Whether a change of a relation touches a finalized period: it needs a reason then, and is late for the period."""

from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from tally.domain.event import canonical_json
from tally.domain.graph import Relation


class FinalizedPeriod(NamedTuple):
    """A billing period whose records never change again, [start, end) in UTC."""

    period: str
    start: datetime
    end: datetime


def touches(before: Relation | None, after: Relation, start: datetime, end: datetime) -> bool:
    """Whether a relation says something else for [start, end) than its version before (None: there was none)."""
    return _says(before, start, end) != _says(after, start, end)


def touched(before: Relation | None, after: Relation, finalized: Iterable[FinalizedPeriod]) -> list[str]:
    """Return the finalized periods that a change touches, in their order."""
    return sorted(period for period, start, end in finalized if touches(before, after, start, end))


def _says(relation: Relation | None, start: datetime, end: datetime) -> tuple[object, ...] | None:
    """Return what a relation says for a period: when it ends does not matter, since it counts for the whole (rule 28).

    When it begins does: of several relations, the latest valid_from counts.
    """
    if relation is None or not relation.intersects(start, end):
        return None
    return (relation.source, relation.target, relation.type, relation.valid_from, canonical_json(relation.metadata))
