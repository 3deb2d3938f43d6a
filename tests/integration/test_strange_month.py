"""A month of names and instants that nobody would choose and a cloud may send: it closes, and nothing is mixed up."""

from collections.abc import Iterator
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tally.domain.errors import Refused
from tally.domain.period import BillingPeriod
from tally.services.finalize import finalize
from tally.services.pricing import load_price_versions
from tally.services.registry import define_type
from tally.store.migrate import migrate
from tests.conftest import fresh_databases
from tests.integration.closing import SMALL, House, copied, instance
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.sending import event, send

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


OPEN_PRICES = """
version: "2026-03"
valid_from: "2026-03"
currency: EUR
pricing:
  test:
    thing:
      dimensions:
        - {metric: units, type: time_gauge, price_per_unit_hour: 0.37}
      type_modifiers: {ssd: 0.5}
"""


def test_usage_under_the_name_of_the_type_is_found_and_breaks_no_run(
    server_url: str, reporting_template: str, tmp_path: Path
) -> None:
    """A type that declares no counters takes any name for one: the price of a gauge goes by the type in its size."""
    (tmp_path / "prices.yaml").write_text(OPEN_PRICES)
    with fresh_databases(server_url, reporting_template, "template0") as (reporting, metering):
        define_type(reporting, "test", "thing", {"lifecycle": {"begin": "create", "use": "usage"}}, actor="test")
        migrate(metering, "metering")
        load_price_versions(metering, tmp_path)
        send(
            reporting,
            thing("b-1", "01T00:00:00", "begin", size={"units": 4, "type": "ssd"}),
            thing("u-1", "11T00:00:00", "use", usage={"type": 1}),
        )
        run = run_month(reporting, metering, finalize=False)
        costs = metering.execute("select dimension, amount from ledger.rated_records order by 1").fetchall()
        with pytest.raises(Refused, match=r"1 finding.s. of kind ambiguous_metric, such as test thing type"):
            finalize(reporting, metering, BillingPeriod.parse(run.period), timedelta(0), lambda: NOW)
    assert costs == [("units", Decimal("550.56"))]


def thing(event_id: str, when: str, event_type: str, **payload: Any) -> dict[str, Any]:
    """An event of a thing of March, which has 744 hours."""
    kind = {"platform": "test", "cloud": "c", "resource_type": "thing"}
    return event(event_id, when, event_type, "t-1", payload=payload, **kind)


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
