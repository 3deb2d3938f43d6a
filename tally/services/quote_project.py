"""For whom a quote is: where the project is billed in the month, and what its bill agrees on (rules 28 and 29).

Read from the registry as it is now; the bill will be made by the registry as it is then.
"""

from collections.abc import Collection
from dataclasses import dataclass

from pricing.adjustments import Term
from tally.domain.errors import NotFound, Refused
from tally.domain.graph import attribute, relations_of_period
from tally.domain.groups import AdjustingRelations
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.domain.project import Project
from tally.services.adjustments import terms_of
from tally.services.projects import list_projects
from tally.store.database import Connection
from tally.store.metering.bills import ProjectRow
from tally.store.reporting.projects import projects_of
from tally.store.reporting.relations import relation_versions


@dataclass(frozen=True, slots=True)
class QuotedProject:
    """A project, the one whose bill its costs are on, the terms of that bill, and what a person should know of them."""

    project: Project
    billed: Project
    terms: tuple[Term, ...]
    warnings: tuple[str, ...]


def quoted_project(
    reporting: Connection, period: BillingPeriod, key: ProjectKey, visible: Collection[ProjectKey] | None
) -> QuotedProject:
    """Find a project, and the terms that hold for it in a month; ``visible`` (None: all) must hold who is billed.

    Raises:
        NotFound: if the registry does not know it.
        Refused: if it is billed inside the bill of a project that is not visible.
    """
    found = list_projects(reporting, cloud=key[0], external_id=key[1], visible=visible)
    if not found:
        raise NotFound(f"project {'/'.join(key)!r} is not registered; create it, or ask without a project")
    project = found[0]
    relations = relations_of_period(relation_versions(reporting), period.start, period.end)
    forest = attribute([project.id], relations)
    root = forest.attributions[project.id].billed
    adjusting = AdjustingRelations(relations)
    concerned = {relation.id: relation for node in (project.id, root) for relation in adjusting.of(node)}
    ends = {end for relation in concerned.values() for end in (relation.source, relation.target)}
    rows = {row.id: row for row in projects_of(reporting, {project.id, root, *ends})}
    billed = rows[root]
    if visible is not None and (billed.cloud, billed.external_id) not in visible:
        raise Refused(f"a quote for {project.address}", ["it is on the bill of a project that is not yours"])
    known = {id_: _row(row) for id_, row in rows.items()}
    terms = terms_of(known, list(concerned.values()), forest, [key])
    agreed = terms.of((billed.cloud, billed.external_id))
    return QuotedProject(project, billed, tuple(agreed), tuple(found.detail for found in terms.findings))


def _row(project: Project) -> ProjectRow:
    return ProjectRow(project.id, project.cloud, project.external_id, project.platform, project.name)
