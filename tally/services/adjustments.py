"""The terms of bills: what the relations of a run's projects agree on, and what of it is not applied (rule 29).

How terms are applied is pricing.adjustments' business, which relations apply tally.domain.groups'.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from pricing.adjustments import Adjustment, Applied, Term, read_adjustments
from tally.domain.completeness import EXAMPLES, Found
from tally.domain.errors import InvalidInput
from tally.domain.graph import Forest, Relation
from tally.domain.groups import AdjustingRelations
from tally.domain.principal import ProjectKey
from tally.store.metering.adjustments import AdjustmentRow, Agreed
from tally.store.metering.bills import ProjectRow


@dataclass(frozen=True, slots=True)
class Terms:
    """The terms of each billed project that has any, and what a person should look at."""

    by_project: Mapping[ProjectKey, Sequence[Term]]
    findings: tuple[Found, ...]

    def of(self, project: ProjectKey) -> Sequence[Term]:
        """The terms of one bill."""
        return self.by_project.get(project, ())


def terms_of(
    projects: Mapping[UUID, ProjectRow], relations: Sequence[Relation], forest: Forest, used: Collection[ProjectKey]
) -> Terms:
    """Collect the terms of all bills of a period, given its relations and the projects that have usage in it.

    What cannot be read is left out and found: it was written before its form was checked.
    """
    agreed, unreadable = _read(relations)
    adjusting = AdjustingRelations([relation for relation in relations if relation.id in agreed])
    keys = {(project.cloud, project.external_id): id_ for id_, project in projects.items()}
    ids = [keys[project] for project in used]
    billed = {forest.attributions[id_].billed for id_ in ids}
    by_project: dict[ProjectKey, list[Term]] = {}
    applied: dict[UUID, set[UUID]] = {}
    for id_ in sorted(billed):
        found = adjusting.of(id_)
        applied[id_] = {relation.id for relation in found}
        terms = [term for relation in found for term in _terms(projects, relation, agreed[relation.id])]
        if terms:
            by_project[projects[id_].cloud, projects[id_].external_id] = terms
    findings = [_unreadable(projects[relation.source], relation, why) for relation, why in unreadable]
    for id_ in ids:
        root = forest.attributions[id_].billed
        lost = [r for r in adjusting.of(id_) if agreed[r.id] and r.id not in applied[root]]
        if lost:
            findings.append(_not_applied(projects[id_], projects[root], lost))
    return Terms(by_project, tuple(findings))


def rows_of(cloud: str, project_id: str, lines: Iterable[Applied], currency: str) -> Iterator[AdjustmentRow]:
    """Make the rows of the ledger of one bill's adjustments."""
    for line in lines:
        yield AdjustmentRow(cloud, project_id, agreed_of(line.term), line.base, line.amount, currency)


def agreed_of(term: Term) -> Agreed:
    """What is agreed, as a row of the ledger says it."""
    agreed = term.adjustment
    return Agreed(
        term.relation_id, term.place, str(agreed.type), term.relation_type, *term.source, *term.target,
        term.target_name, agreed.scope, agreed.rate, agreed.description,
    )


def _read(
    relations: Sequence[Relation],
) -> tuple[dict[UUID, tuple[Adjustment, ...]], list[tuple[Relation, InvalidInput]]]:
    agreed, unreadable = {}, []
    for relation in relations:
        try:
            agreed[relation.id] = read_adjustments(relation.type, relation.metadata)
        except InvalidInput as error:
            agreed[relation.id] = ()
            unreadable.append((relation, error))
    return agreed, unreadable


def _terms(
    projects: Mapping[UUID, ProjectRow], relation: Relation, adjustments: Sequence[Adjustment]
) -> Iterator[Term]:
    source, target = projects[relation.source], projects[relation.target]
    ends = (source.cloud, source.external_id), (target.cloud, target.external_id)
    for place, adjustment in enumerate(adjustments):
        name = target.name or target.external_id
        yield Term(relation.id, place, relation.type, *ends, name, adjustment)


def _unreadable(source: ProjectRow, relation: Relation, why: InvalidInput) -> Found:
    detail = f"relation {relation.id}: {why}"
    return Found("unreadable_adjustment", source.cloud, source.platform, "", source.external_id, detail)


def _not_applied(project: ProjectRow, root: ProjectRow, lost: Sequence[Relation]) -> Found:
    names = ", ".join(str(relation.id) for relation in lost[:EXAMPLES])
    detail = f"it is billed inside {root.cloud}/{root.external_id}, where what its relations agree on does not apply"
    return Found(
        "adjustment_not_applied", project.cloud, project.platform, "", project.external_id, f"{detail}: {names}",
        count=len(lost),
    )
