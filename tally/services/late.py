"""What is late for a finalized period: what was said of it after its run had read its inputs (rules 18 and 28)."""

from typing import NamedTuple

from tally.domain.closed_periods import FinalizedPeriod, touches
from tally.domain.graph import Relation
from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering import bills as bill_store
from tally.store.metering import runs as run_store
from tally.store.reporting import relations as relation_store


class LateRelation(NamedTuple):
    """A version of a relation that a run has not read, and the version before it."""

    before: Relation | None
    after: Relation


def finalized_periods(metering: Connection) -> list[FinalizedPeriod]:
    """Return the periods whose regular run is finalized, the oldest first."""
    runs = run_store.select_runs(metering, kind="regular", statuses=("finalized",))
    return sorted(FinalizedPeriod(run.period, run.period_from, run.period_to) for run in runs)


def late_relations(reporting: Connection, metering: Connection, run: Run) -> list[LateRelation]:
    """Return the versions of relations that a run has not read and that change what holds in its period.

    Those that have not been loaded yet count, too. They come in the order of (relation id, version).
    """
    read = {(relation.id, relation.version) for relation in bill_store.relations_at(metering, run.load_id)}
    late, before = [], None
    for after in relation_store.relation_versions(reporting):
        if before is None or before.id != after.id:
            before = None
        if (after.id, after.version) not in read and touches(before, after, run.period_from, run.period_to):
            late.append(LateRelation(before, after))
        before = after
    return late
