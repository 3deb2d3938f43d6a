"""Which bills are made at once: whole ones, and about as many usage records at a time."""

from uuid import UUID

from tally.services.accounts import USAGE_RECORDS, Account, accounts_of, batches
from tally.store.metering.bills import AttributionRow


def attributed(project: str, billed: str | None = None) -> AttributionRow:
    if billed is None:
        return AttributionRow("os", project, "os", project, None, None, 0)
    return AttributionRow("os", project, "os", billed, UUID(int=1), "infrastructure_tenant", 1)


def test_projects_that_are_billed_together_are_one_account() -> None:
    """Also if the billed one has no usage of its own."""
    rows = [attributed("b", "root"), attributed("alone"), attributed("a", "root")]
    alone, root = accounts_of(rows, {("os", "a"): 2, ("os", "b"): 3, ("os", "alone"): 5})
    assert (alone.projects, alone.usage_records) == ([("os", "alone")], 5)
    assert (root.projects, root.usage_records) == ([("os", "root"), ("os", "b"), ("os", "a")], 5)
    assert root.related == {("os", "a"): "infrastructure_tenant", ("os", "b"): "infrastructure_tenant"}


def test_bills_are_made_by_thousands_of_usage_records_until_there_are_enough() -> None:
    half = USAGE_RECORDS // 2
    sizes = {"a": half, "b": half, "c": 1, "d": 10 * USAGE_RECORDS, "e": 1}
    accounts = [Account(("os", name), usage_records=size) for name, size in sizes.items()]
    made = [[account.billed[1] for account in batch] for batch in batches(accounts)]
    assert made == [["a", "b"], ["c", "d"], ["e"]]
    assert list(batches([])) == []
