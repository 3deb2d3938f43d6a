"""Which projects are billed together, and the line items of each: read in batches, since a month has millions.

The text of line items is made by tally.store.metering.line_items, what stands around it by pricing.bill.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from pricing.bill import LineItems
from pricing.model import PriceVersion
from tally.domain.errors import Refused
from tally.domain.principal import ProjectKey
from tally.domain.run import Run
from tally.store.database import Connection
from tally.store.metering import line_items as store
from tally.store.metering.bills import AttributionRow
from tally.store.metering.line_items import PricedMetric

# Few enough to be sorted in memory, enough that a query is not felt.
USAGE_RECORDS = 5_000

ItemsOf = Mapping[ProjectKey, Sequence[LineItems]]
Read = Callable[[Sequence[Callable[[Connection], ItemsOf]]], Iterator[ItemsOf]]  # see tally.store.sessions


@dataclass(slots=True)
class Account:
    """A billed project, and those that are billed inside its bill, each with the type of the relation that says so."""

    billed: ProjectKey
    related: dict[ProjectKey, str] = field(default_factory=dict)
    usage_records: int = 0  # of all of them

    @property
    def projects(self) -> list[ProjectKey]:
        """All whose costs are on the bill; the billed one may have none."""
        return [self.billed, *self.related]


def accounts_of(attributions: Iterable[AttributionRow], usage_records: Mapping[ProjectKey, int]) -> list[Account]:
    """Collect the bills of attributed projects in order, given how many usage records each has."""
    accounts: dict[ProjectKey, Account] = {}
    for row in attributions:
        project, billed = (row.cloud, row.project_id), (row.billed_cloud, row.billed_project_id)
        account = accounts.setdefault(billed, Account(billed))
        account.usage_records += usage_records.get(project, 0)
        if project != billed:
            account.related[project] = row.relation_type or ""
    return [accounts[billed] for billed in sorted(accounts)]


def items_of_accounts(
    read: Read, run: Run, versions: Sequence[PriceVersion], accounts: Sequence[Account]
) -> Iterator[tuple[Account, ItemsOf]]:
    """Read the line items of each account, by project; one without any is not in it.

    ``versions`` are those that price the month, at least one, all in one currency.

    Raises:
        Refused: if there are costs that no bill can show, naming them.
    """
    batches = list(_batches(accounts))
    for batch, items in zip(batches, read([partial(_items, run, versions, batch) for batch in batches]), strict=True):
        for account in batch:
            yield account, items


def _batches(accounts: Sequence[Account]) -> Iterator[list[Account]]:
    batch: list[Account] = []
    count = 0
    for account in accounts:
        batch.append(account)
        count += account.usage_records
        if count >= USAGE_RECORDS:
            yield batch
            batch, count = [], 0
    if batch:
        yield batch


def _items(run: Run, versions: Sequence[PriceVersion], batch: Sequence[Account], connection: Connection) -> ItemsOf:
    projects = [project for account in batch for project in account.projects]
    asked = projects, [metric for version in versions for metric in _priced(version)], versions[0].currency
    found: defaultdict[ProjectKey, list[LineItems]] = defaultdict(list)
    for row in store.select_items(connection, run.id, *asked):
        if row.strange:
            raise Refused(f"bills of {run.period}", store.select_strange(connection, run.id, *asked))
        found[row.cloud, row.project_id].append(LineItems(row.resource_type, row.text, row.total))
    return found


def _priced(version: PriceVersion) -> list[PricedMetric]:
    return [
        PricedMetric(
            version.version, price.platform, price.resource_type, price.metric,
            version.has_table(price.platform, price.resource_type, "type"),
        )
        for price in version.prices
    ]
