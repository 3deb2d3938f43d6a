"""Which projects are billed together, and which bills are made at once: a month has millions of line items."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tally.domain.principal import ProjectKey
from tally.store.metering.bills import AttributionRow

# Few enough to be sorted in memory, enough that a query is not felt.
USAGE_RECORDS = 5_000


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


def batches(accounts: Sequence[Account]) -> Iterator[list[Account]]:
    """Split accounts into those whose bills are made at once: about as many usage records at a time."""
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
