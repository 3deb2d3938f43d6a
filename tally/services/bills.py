"""Bills: one document per billed project and period, stored with the run (rules 28 and 30).

Which project is billed where is decided by tally.domain.graph, the form of a document by pricing.bill; here rows are
read, handed to them, and stored.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from uuid import UUID, uuid5

from pricing.bill import ProjectRef, RelatedProject, build_bill
from pricing.model import PriceVersion
from tally.domain.completeness import Found
from tally.domain.errors import NotFound
from tally.domain.graph import Forest, Relation, attribute, relations_of_period
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.adjustments import Terms, rows_of, terms_of
from tally.services.bill_corrections import corrected_bills
from tally.services.bill_items import Account, ItemsOf, Read, accounts_of, items_of_accounts
from tally.services.pricing import price_parts
from tally.store.database import Connection
from tally.store.metering import bills as store
from tally.store.metering.adjustments import reverse_adjustments
from tally.store.metering.bills import AttributionRow, BillRow, ProjectRow, UsedProject
from tally.store.metering.findings import insert_findings
from tally.store.metering.runs import latest_run
from tally.store.sessions import reader

_LONG = 4_000_000  # characters of documents that are written at once
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

    Raises:
        Refused: if there are costs that no bill can show, naming them.
    """
    month = _month(metering, run)
    attributions = list(_attributions(month))
    read = reader(metering)

    def bills_of(billed: Collection[ProjectKey]) -> Iterator[BillRow]:
        return _bills(read, month, [account for account in month.accounts(attributions) if account.billed in billed])

    with metering.transaction():
        store.delete_bills(metering, run.id)
        insert_findings(metering, run.id, [*_findings(month), *month.terms.findings])
        if run.kind == "correction":
            made = corrected_bills(metering, run, attributions, month.terms, bills_of)
        else:
            store.insert_attributions(metering, run.id, attributions)
            made = _bills(read, month, month.accounts(attributions))
        count, total = 0, Decimal("0.00")
        for part in _parts(made):
            store.insert_bills(metering, run.id, part)
            count, total = count + len(part), total + sum(bill.total for bill in part)
        reverse_adjustments(metering, run.id)
    return BillsMade(count, len(month.used), total, month.currency)


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
        listed = f"; tally bill {period} lists those that have one"
        where = f"; it is billed inside {', '.join('/'.join(pair) for pair in inside)}" if inside else listed
        raise NotFound(f"{period} has no bill of project {project}{where}")
    return found


def rebuilt(metering: Connection, run: Run) -> Iterator[BillRow]:
    """The bills as of a run, made again from the records and attributions that count; nothing is stored."""
    month = _month(metering, run)
    yield from _bills(reader(metering), month, month.accounts(store.attributions(metering, run.id)))


@dataclass(frozen=True, slots=True)
class _Month:
    """What the bills of a run are made from, but for its records."""

    run: Run
    versions: Sequence[PriceVersion]  # mostly one, all in one currency
    projects: Mapping[UUID, ProjectRow]
    used: Mapping[ProjectKey, int]  # how many usage records each project has that has any
    forest: Forest
    terms: Terms

    @property
    def currency(self) -> str:
        """That of its bills."""
        return self.versions[0].currency

    def accounts(self, attributions: Iterable[AttributionRow]) -> list[Account]:
        """The bills that there are."""
        return accounts_of(attributions, self.used)


def _month(metering: Connection, run: Run) -> _Month:
    found = store.projects_of_run(metering, run.id)
    projects, relations = _projects(metering, run, found), _relations(metering, run)
    used = {(project.cloud, project.external_id): project.usage_records for project in found}
    forest = attribute(projects.keys(), relations)
    terms = terms_of(projects, relations, forest, used.keys())
    versions = [part.version for part in price_parts(metering, run)]
    return _Month(run, versions, projects, used, forest, terms)


def _projects(metering: Connection, run: Run, found: Sequence[UsedProject]) -> dict[UUID, ProjectRow]:
    """All projects by id. One with usage that the registry does not know gets an id of its own, made of its name."""
    known = {p.id: p for p in store.registered_projects(metering, run.id) if p.id is not None}
    names = {(p.cloud, p.external_id) for p in known.values()}
    unknown = {
        uuid5(_UNKNOWN_PROJECTS, f"{p.cloud}\n{p.external_id}"): ProjectRow(None, p.cloud, p.external_id, p.platform)
        for p in found
        if (p.cloud, p.external_id) not in names
    }
    return known | unknown


def _parts(made: Iterable[BillRow]) -> Iterator[list[BillRow]]:
    """Collect bills to be written at once: of a big project one alone may be too much to keep several."""
    part: list[BillRow] = []
    length = 0
    for bill in made:
        part.append(bill)
        length += len(bill.document)
        if length >= _LONG:
            yield part
            part, length = [], 0
    if part:
        yield part


def _relations(metering: Connection, run: Run) -> list[Relation]:
    return relations_of_period(store.relations_at(metering, run.load_id), run.period_from, run.period_to)


def _attributions(month: _Month) -> Iterator[AttributionRow]:
    for attribution in month.forest.attributions.values():
        project, billed = month.projects[attribution.project], month.projects[attribution.billed]
        if (project.cloud, project.external_id) in month.used:
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


def _findings(month: _Month) -> list[Found]:
    unknown = [
        Found("unknown_project", p.cloud, p.platform, "", p.external_id,
              "not in the registry of projects; it is billed alone")
        for p in month.projects.values()
        if p.id is None
    ]
    decided = [
        Found(warning.kind, p.cloud, p.platform, "", p.external_id, warning.detail)
        for warning in month.forest.warnings
        for p in [month.projects[warning.project]]
    ]
    return unknown + decided


def _bills(read: Read, month: _Month, accounts: Sequence[Account]) -> Iterator[BillRow]:
    refs = {
        (p.cloud, p.external_id): ProjectRef(p.cloud, p.external_id, p.platform) for p in month.projects.values()
    }
    for account, items in items_of_accounts(read, month.run, month.versions, accounts):
        yield _bill(month, account, refs, items)


def _bill(month: _Month, account: Account, refs: Mapping[ProjectKey, ProjectRef], items: ItemsOf) -> BillRow:
    run, currency, billed = month.run, month.currency, account.billed
    related = [RelatedProject(kind, refs[key], items.get(key, ())) for key, kind in account.related.items()]
    bill = build_bill(
        run.period_from, run.period_to, refs[billed], items.get(billed, ()), related, currency, month.terms.of(billed)
    )
    digest = hashlib.sha256(bill.document.encode()).hexdigest()
    adjustments = tuple(rows_of(*billed, bill.adjustments, currency))
    return BillRow(
        *billed, refs[billed].platform, bill.total, currency, bill.document, digest, adjustments=adjustments
    )
