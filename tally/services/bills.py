"""Bills: one document per billed project and period, stored with the run (rules 28 and 30).

Which project is billed where is decided by tally.domain.graph, the form of a document by pricing.bill; here rows are
read, handed to them, and stored.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, islice
from operator import attrgetter
from uuid import UUID, uuid5

from pricing.bill import ProjectRef, RelatedProject, build_bill
from pricing.line_items import Forms
from pricing.model import PriceVersion
from tally.domain.completeness import Found
from tally.domain.errors import NotFound
from tally.domain.graph import Forest, Relation, attribute, relations_of_period
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.adjustments import Terms, rows_of, terms_of
from tally.services.bill_corrections import corrected_bills
from tally.services.pricing import version_named
from tally.store.database import Connection
from tally.store.metering import bills as store
from tally.store.metering.adjustments import reverse_adjustments
from tally.store.metering.bills import AttributionRow, BillRow, ProjectRow, RecordRow
from tally.store.metering.findings import insert_findings
from tally.store.metering.runs import latest_run

_BATCH = 500
_UNKNOWN_PROJECTS = UUID("7a11b111-0000-4000-8000-000000000000")


@dataclass(frozen=True, slots=True)
class BillsMade:
    """What make_bills did."""

    bills: int
    projects: int
    total: Decimal
    currency: str


def make_bills(metering: Connection, run: Run) -> BillsMade:
    """Attribute the projects of a run and store the bill of each billed one; a repeated call replaces its own.

    A correction stores what differs: it takes back bills and attributions that no longer hold, and writes them again.
    """
    version = version_named(metering, run.pricing_version or "")
    found = store.projects_of_run(metering, run.id)
    projects = _projects(metering, run, found)
    relations = _relations(metering, run)
    forest = attribute(projects.keys(), relations)
    used = {(p.cloud, p.external_id) for p in found}
    attributions = list(_attributions(projects, forest, used))
    terms = terms_of(projects, relations, forest, used)

    def bills_of(billed: Collection[ProjectKey] | None) -> Iterator[BillRow]:
        return _bills(store.records(metering, run.id, version.currency, billed), run, projects, version, terms)

    with metering.transaction():
        store.delete_bills(metering, run.id)
        insert_findings(metering, run.id, [*_findings(projects, forest), *terms.findings])
        if run.kind == "correction":
            made = corrected_bills(metering, run, attributions, terms, bills_of)
        else:
            store.insert_attributions(metering, run.id, attributions)
            made = bills_of(None)
        count, total = 0, Decimal("0.00")
        while part := list(islice(made, _BATCH)):
            store.insert_bills(metering, run.id, part)
            count, total = count + len(part), total + sum(bill.total for bill in part)
        reverse_adjustments(metering, run.id)
    return BillsMade(count, len(used), total, version.currency)


def bills(metering: Connection, period: BillingPeriod, project: str | None = None) -> list[BillRow]:
    """The bills of a period that count: all, or those of one project (``project`` or ``cloud/project``).

    Raises:
        NotFound: if the period has no completed run, or the project no bill in it.
    """
    run = latest_run(metering, str(period))
    if run is None:
        raise NotFound(f"{period} has no completed run; close it first: tally close {period}")
    if project is None:
        return store.select_bills(metering, run.id, None, None)
    found = store.select_bills(metering, run.id, None, project)
    cloud, slash, external_id = project.partition("/")
    if not found and slash:
        found = store.select_bills(metering, run.id, cloud, external_id)
    if not found:
        inside = store.billed_inside(metering, run.id, project)
        if slash:
            inside += store.billed_inside(metering, run.id, external_id, cloud)
        where = f"; it is billed inside {', '.join('/'.join(pair) for pair in inside)}" if inside else ""
        raise NotFound(f"{period} has no bill of project {project}{where}")
    return found


def rebuilt(metering: Connection, run: Run) -> Iterator[BillRow]:
    """The bills as of a run, made again from the records that count; nothing is stored. Needs a transaction."""
    version = version_named(metering, run.pricing_version or "")
    found = store.projects_of_run(metering, run.id)
    projects, relations = _projects(metering, run, found), _relations(metering, run)
    used = {(p.cloud, p.external_id) for p in found}
    terms = terms_of(projects, relations, attribute(projects.keys(), relations), used)
    yield from _bills(store.records(metering, run.id, version.currency), run, projects, version, terms)


def _projects(metering: Connection, run: Run, found: Sequence[ProjectRow]) -> dict[UUID, ProjectRow]:
    """All projects by id. One with usage that the registry does not know gets an id of its own, made of its name."""
    known = {p.id: p for p in store.registered_projects(metering, run.id) if p.id is not None}
    names = {(p.cloud, p.external_id) for p in known.values()}
    unknown = {
        uuid5(_UNKNOWN_PROJECTS, f"{p.cloud}\n{p.external_id}"): p._replace(id=None)
        for p in found
        if (p.cloud, p.external_id) not in names
    }
    return known | unknown


def _relations(metering: Connection, run: Run) -> list[Relation]:
    return relations_of_period(store.relations_at(metering, run.load_id), run.period_from, run.period_to)


def _attributions(
    projects: dict[UUID, ProjectRow], forest: Forest, used: set[ProjectKey]
) -> Iterator[AttributionRow]:
    for attribution in forest.attributions.values():
        project, billed = projects[attribution.project], projects[attribution.billed]
        if (project.cloud, project.external_id) in used:
            relation = attribution.relation
            yield AttributionRow(
                project.cloud,
                project.external_id,
                billed.cloud,
                billed.external_id,
                relation.id if relation else None,
                relation.type if relation else None,
                attribution.depth,
            )


def _findings(projects: dict[UUID, ProjectRow], forest: Forest) -> list[Found]:
    unknown = [
        Found("unknown_project", p.cloud, p.platform, "", p.external_id,
              "not in the registry of projects; it is billed alone")
        for p in projects.values()
        if p.id is None
    ]
    decided = [
        Found(warning.kind, p.cloud, p.platform, "", p.external_id, warning.detail)
        for warning in forest.warnings
        for p in [projects[warning.project]]
    ]
    return unknown + decided


def _bills(
    rows: Iterator[RecordRow], run: Run, projects: dict[UUID, ProjectRow], version: PriceVersion, terms: Terms
) -> Iterator[BillRow]:
    platforms = {(p.cloud, p.external_id): p.platform for p in projects.values()}
    forms = Forms(version)
    for billed, records in groupby(rows, key=attrgetter("billed_cloud", "billed_project_id")):
        parts = {key: list(part) for key, part in groupby(records, key=attrgetter("cloud", "project_id"))}
        own, related = parts.pop(billed, []), [_related(part) for part in parts.values()]
        project = ProjectRef(*billed, platforms[billed])
        bill = build_bill(run.period_from, run.period_to, project, own, related, forms, terms.of(billed))
        yield BillRow(
            *billed, project.platform, bill.total, version.currency, bill.document,
            hashlib.sha256(bill.document.encode()).hexdigest(),
            adjustments=tuple(rows_of(*billed, bill.adjustments, version.currency)),
        )


def _related(records: Sequence[RecordRow]) -> RelatedProject:
    first = records[0]
    return RelatedProject(first.relation_type or "", ProjectRef(first.cloud, first.project_id, first.platform), records)
