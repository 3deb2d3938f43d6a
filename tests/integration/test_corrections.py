"""What arrives late becomes a correction of its month: reversals and new records, exact, once (rules 18 to 22)."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.integration.closing import LARGE, House, instance

APRIL_5 = "2026-04-05T00:00:00Z"  # after the grace of March


@pytest.fixture
def finalized(house: House) -> Iterator[House]:
    """The small month, finalized."""
    assert house.launch("finalize_month").success
    yield house


def rows_of(house: House, kind: str) -> list[tuple[object, ...]]:
    return house.query(
        "select r.dimension, r.sign, r.amount from ledger.rated_records as r"
        f" inner join ledger.runs on runs.id = r.run_id where runs.kind = '{kind}' order by 1, 2"
    )


def effective_total(house: House) -> Decimal:
    """What all bills of March come to, corrections included."""
    return house.query("select sum(total) from ledger.bills inner join ledger.runs on id = run_id"
                       " where status = 'finalized'")[0][0]


def test_a_materialization_after_finalization_without_news_writes_no_records(finalized: House) -> None:
    """It is a correction run, and an empty one."""
    before = effective_total(finalized)
    finalized.close()
    assert rows_of(finalized, "correction") == []
    assert finalized.query("select kind, status from ledger.runs order by load_id") == [
        ("regular", "finalized"),
        ("correction", "finalized"),
    ]
    assert effective_total(finalized) == before


def test_s55_a_late_delete_is_credited_in_its_month(house: House) -> None:
    """S55: m1.large full March; the delete of the 20th arrives after the close: -22.08, -11.04, -22.08, together -55.20."""
    house.ingest(instance("l-1", "02-01T00:00:00", "create.end", "late", size=LARGE, project_id="p-9"))
    house.close()
    assert house.launch("finalize_month").success
    house.ingest(instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9"))
    house.close()
    assert rows_of(house, "correction") == [
        ("disk_gb", -1, Decimal("-59.52")), ("disk_gb", 1, Decimal("37.44")),
        ("ram_gb", -1, Decimal("-29.76")), ("ram_gb", 1, Decimal("18.72")),
        ("vcpus", -1, Decimal("-59.52")), ("vcpus", 1, Decimal("37.44")),
    ]
    assert house.query(
        "select b.sign, b.total from ledger.bills as b inner join ledger.runs on id = run_id"
        " where kind = 'correction' order by sign"
    ) == [(-1, Decimal("-148.80")), (1, Decimal("93.60"))]
    house.close()
    assert house.query(
        "select u.sign, count(*) from ledger.usage_records as u inner join ledger.runs on runs.id = u.run_id"
        " where kind = 'correction' group by 1 order by 1"
    ) == [(-1, 1), (1, 1)]
