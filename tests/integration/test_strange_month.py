"""A month of names and instants that nobody would choose and a cloud may send: it closes, and nothing is mixed up."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from tests.integration.closing import SMALL, House, copied, instance

STRANGE = {
    "back\\slash": "of Windows",
    "\\x41": "reads as A where a text is taken for bytes",
    "A": "",
    "A ": "differs by a space",
    "a": "differs by case",
    "a|b": "holds what separates",
    "line\nbreak\ttab": "",
    'it\'s "quoted" {{ and }} %s %(x)s': "",
    "../../etc/passwd": "",
    "🦀" * 128: "as long as an id may be",
}
SIZED = {"size": SMALL}


# Of the project p-1, at the edges of the month.
EDGES = (
    instance("y-1", "03-10T00:00:00", "create.end", "ancient", **SIZED) | {"timestamp": "0001-01-01T00:00:00Z"},
    instance("b-1", "03-01T00:00:00", "create.end", "whole", **SIZED),
    instance("b-2", "04-01T00:00:00", "delete.end", "whole"),
    instance("b-3", "04-01T00:00:00", "create.end", "after", **SIZED),
    instance("b-4", "02-01T00:00:00", "create.end", "before", **SIZED),
    instance("b-5", "03-01T00:00:00", "delete.end", "before"),
    instance("b-6", "03-31T23:59:59.999999999", "create.end", "last microsecond", **SIZED),
    instance("b-7", "03-05T14:00:00", "create.end", "zoned", **SIZED) | {"timestamp": "2026-03-31T14:00:00+14:00"},
)


@pytest.fixture(scope="module")
def closed(server_url: str, reporting_template: str, metering_template: str, tally_home: None) -> Iterator[House]:  # noqa: ARG001
    """The month, closed once; its tests only read it."""
    with copied(server_url, (reporting_template, metering_template)) as house:
        for name in STRANGE:
            house.ingest(instance(f"id {name}"[:100], "03-10T00:00:00", "create.end", name, project_id=name, **SIZED))
        house.ingest(*EDGES)
        house.close()
        yield house


def test_names_of_any_letters_are_metered_each_by_itself(closed: House) -> None:
    """Events are not asked for their taste: every id has its own usage record, and its project its own bill."""
    metered = closed.query(
        "select resource_id, project_id, usage ->> 'minutes' from ledger.usage_records where project_id <> 'p-1'"
    )
    assert sorted(metered) == sorted((name, name, "31680") for name in STRANGE)
    billed = closed.query("select project_id, total from ledger.bills where project_id <> 'p-1'")
    assert {name for name, _ in billed} == STRANGE.keys()
    assert len({total for _, total in billed}) == 1


def test_instants_at_the_edges_count_in_the_month_they_belong_to(closed: House) -> None:
    """Half-open: what begins as the month ends is not in it, nor what ends as it begins. Year 1 is long ago."""
    rows = closed.query(
        "select resource_id, extract(epoch from to_ts - from_ts) from ledger.usage_records where project_id = 'p-1'"
    )
    month = Decimal(31 * 86_400)
    assert dict(rows) == {
        "ancient": month,
        "whole": month,
        "last microsecond": Decimal("0.000001"),
        "zoned": Decimal(86_400),
    }
