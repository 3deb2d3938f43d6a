"""Which line items are read together: whole bills, and about as many usage records at a time."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import cast
from uuid import UUID

from pricing.price_file import parse_price_version
from tally.domain.run import Run
from tally.services.bill_items import USAGE_RECORDS, Account, ItemsOf, accounts_of, items_of_accounts
from tally.store.database import Connection
from tally.store.metering.bills import AttributionRow

MODEL = Path(__file__).parents[3] / "pricing/models/2026-03.yaml"
VERSION = parse_price_version(MODEL.read_text(encoding="utf-8"), MODEL.name)


def attributed(project: str, billed: str | None = None) -> AttributionRow:
    if billed is None:
        return AttributionRow("os", project, "os", project, None, None, 0)
    return AttributionRow("os", project, "os", billed, UUID(int=1), "infrastructure_tenant", 1)


def read_with(accounts: Sequence[Account]) -> list[list[str]]:
    """The billed projects of each reading."""
    read: list[list[str]] = []

    def reader(tasks: Sequence[Callable[[Connection], ItemsOf]]) -> Iterator[ItemsOf]:
        for _ in tasks:
            read.append([])
            yield {}

    for account, _ in items_of_accounts(reader, cast(Run, None), VERSION, accounts):
        read[-1].append(account.billed[1])
    return read


def test_projects_that_are_billed_together_are_one_account() -> None:
    """Also if the billed one has no usage of its own."""
    rows = [attributed("b", "root"), attributed("alone"), attributed("a", "root")]
    alone, root = accounts_of(rows, {("os", "a"): 2, ("os", "b"): 3, ("os", "alone"): 5})
    assert (alone.projects, alone.usage_records) == ([("os", "alone")], 5)
    assert (root.projects, root.usage_records) == ([("os", "root"), ("os", "b"), ("os", "a")], 5)
    assert root.related == {("os", "a"): "infrastructure_tenant", ("os", "b"): "infrastructure_tenant"}


def test_accounts_are_read_by_thousands_of_usage_records_until_there_are_enough() -> None:
    half = USAGE_RECORDS // 2
    sizes = {"a": half, "b": half, "c": 1, "d": 10 * USAGE_RECORDS, "e": 1}
    accounts = [Account(("os", name), usage_records=size) for name, size in sizes.items()]
    assert read_with(accounts) == [["a", "b"], ["c", "d"], ["e"]]
    assert read_with([]) == []
