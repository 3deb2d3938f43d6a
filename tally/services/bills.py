"""Bills: one document per billed project and period, stored with the run (rules 28 and 30).

Which project is billed where is decided by tally.domain.graph, the form of a document by pricing.bill; here rows are
read, handed to them, and stored.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import partial
from uuid import UUID, uuid5

from pricing.bill import ProjectRef
from pricing.model import PriceVersion
from tally.domain.completeness import Found
from tally.domain.errors import NotFound
from tally.domain.graph import Forest, Relation, attribute, relations_of_period
from tally.domain.period import BillingPeriod
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.services.accounts import Account, accounts_of, batches
from tally.services.adjustments import Terms, terms_of
from tally.services.bill_corrections import corrected_bills
from tally.services.bill_frames import FramedBill, framed_bill
from tally.services.ledger_queries import latest
from tally.services.pricing import price_parts
from tally.store.database import Connection
from tally.store.metering import bills as store
from tally.store.metering.adjustments import AdjustmentRow, insert_adjustments, reverse_adjustments
from tally.store.metering.bill_texts import hash_bills, write_bills
from tally.store.metering.bills import AttributionRow, IssuedBill, ProjectCosts, ProjectRow, UsedProject
from tally.store.metering.findings import insert_findings
from tally.store.metering.line_items import AskedItems, PricedMetric
from tally.store.metering.tampering import HashedBill
from tally.store.sessions import reader

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
    Bills of other runs are written in several sessions, each in transactions of its own: if one fails, what the others
    have written is of a run that fails with it.

    Raises:
        Refused: if there are costs that no bill can show, naming them; if a document is too long.
    """
    month = _month(metering, run)
    attributions = list(_attributions(month))
    accounts = month.accounts(attributions)

    def write(billed: Collection[ProjectKey]) -> list[AdjustmentRow]:
        return _write(metering, month, [account for account in accounts if account.billed in billed])

    with metering.transaction():
        store.delete_bills(metering, run.id)
        insert_findings(metering, run.id, [*_findings(month), *month.terms.findings])
    if run.kind == "correction":
        with metering.transaction():
            adjustments = corrected_bills(metering, run, attributions, month.terms, write)
    else:
        store.insert_attributions(metering, run.id, attributions)
        adjustments = _write(metering, month, accounts)
    with metering.transaction():
        insert_adjustments(metering, run.id, adjustments)
        reverse_adjustments(metering, run.id)
    count, total = store.sum_of_bills(metering, run.id)
    return BillsMade(count, len(month.used), total, month.currency)


def bills(metering: Connection, period: BillingPeriod, project: str | None = None) -> list[IssuedBill]:
    """The bills of a period that count: all, or those of one project (``project`` or ``cloud/project``).

    Raises:
        NotFound: if the period has no completed run, or the project no bill in it.
    """
    run = latest(metering, str(period))
    found = store.issued_bills(metering, run.id)
    if project is None:
        return found
    cloud, slash, external_id = project.partition("/")
    if named := [bill for bill in found if bill.project_id == project]:
        return named
    if named := [bill for bill in found if slash and (bill.cloud, bill.project_id) == (cloud, external_id)]:
        return named
    inside = store.billed_inside(metering, run.id, project)
    if slash:
        inside += store.billed_inside(metering, run.id, external_id, cloud)
    listed = f"; tally bill {period} lists those that have one"
    where = f"; it is billed inside {', '.join('/'.join(pair) for pair in inside)}" if inside else listed
    raise NotFound(f"{period} has no bill of project {project}{where}")


def documents(metering: Connection, of: Iterable[IssuedBill]) -> Iterator[str]:
    """The document of each bill, as JSON; one at a time, since each may be long.

    To be read in the snapshot that listed them: a run that replaces theirs takes them away.
    """
    for bill in of:
        yield store.select_document(metering, bill)


def rebuilt(metering: Connection, run: Run) -> Iterator[HashedBill]:
    """The bills as of a run, made again from the records and attributions that count; nothing is stored."""
    month = _month(metering, run)
    accounts = month.accounts(store.attributions(metering, run.id))
    framed = _framing(metering, month, accounts)

    def hashed(batch: Sequence[Account], connection: Connection) -> list[HashedBill]:
        return hash_bills(connection, run, [framed(account).frame for account in batch], month.items_of(batch))

    for made in reader(metering)([partial(hashed, batch) for batch in batches(accounts)]):
        yield from made


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

    def items_of(self, accounts: Iterable[Account]) -> AskedItems:
        """The line items of some bills."""
        priced = [metric for version in self.versions for metric in _priced(version)]
        return AskedItems([key for one in accounts for key in one.projects], priced, self.currency)


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


def _write(metering: Connection, month: _Month, accounts: Sequence[Account]) -> list[AdjustmentRow]:
    """Write the bills of accounts; returns their adjustments, which are not yet written."""
    framed = _framing(metering, month, accounts)

    def write(batch: Sequence[Account], connection: Connection) -> list[AdjustmentRow]:
        made = [framed(account) for account in batch]
        write_bills(connection, month.run, [bill.frame for bill in made], month.items_of(batch))
        return [row for bill in made for row in bill.adjustments]

    tasks = [partial(write, batch) for batch in batches(accounts)]
    return [row for rows in reader(metering)(tasks) for row in rows]


def _framing(metering: Connection, month: _Month, accounts: Sequence[Account]) -> Callable[[Account], FramedBill]:
    """What makes the bill of an account, but for its line items, from what its projects cost."""
    costs: defaultdict[ProjectKey, list[ProjectCosts]] = defaultdict(list)
    for row in store.costs_of_projects(metering, month.run.id, [key for one in accounts for key in one.projects]):
        costs[row.cloud, row.project_id].append(row)
    refs = {
        (p.cloud, p.external_id): ProjectRef(p.cloud, p.external_id, p.platform) for p in month.projects.values()
    }
    return partial(framed_bill, month.run, refs, costs, month.terms, month.currency)


def _priced(version: PriceVersion) -> list[PricedMetric]:
    return [
        PricedMetric(
            version.version, price.platform, price.resource_type, price.metric,
            version.has_table(price.platform, price.resource_type, "type"),
        )
        for price in version.prices
    ]
