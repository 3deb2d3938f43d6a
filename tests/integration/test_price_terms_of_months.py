"""Months of prices with terms, closed and corrected: what a project uses together is corrected together (rule 20)."""

import csv
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.correct import CorrectionRequest
from tally.services.explain import explain
from tally.services.focus_export import Names, export_focus
from tally.services.pricing import load_price_versions
from tally.store.database import Connection
from tally.store.metering.checks import invariant
from tests.conftest import REPOSITORY
from tests.integration.closing import SMALL, instance
from tests.integration.month_by_hand import run_month
from tests.integration.registering import day
from tests.integration.sending import send

EGRESS = """\
          tiers:
            mode: volume
            per: project
            steps:
              - {up_to: 15, price_per_unit: 10}
              - {price_per_unit: 5}
"""


def load_april(metering: Connection, folder: Path) -> None:
    """From April on, up to 15 GB cost 10 each, more of them 5 all; vcpus by the hour, and at most 20 a month."""
    text = (REPOSITORY / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")
    text = text.replace('"2026-03', '"2026-04').replace("          price_per_unit: 0.09\n", EGRESS)
    hourly = "price_per_unit_hour: 0.02\n"
    text = text.replace(hourly, f"{hourly}          billing_increment: 1h\n          monthly_cap: 20\n", 1)
    (folder / "2026-04.yaml").write_text(text, encoding="utf-8")
    load_price_versions(metering, folder)


def server(resource_id: str, project_id: str) -> dict[str, Any]:
    """A server since March."""
    return instance(f"c-{resource_id}", "03-30T10:30:00", "create.end", resource_id, size=SMALL, project_id=project_id)


def egress(resource_id: str, project_id: str, when: str, quantity: int) -> dict[str, Any]:
    """Some GB that a server has sent."""
    event = instance(f"u-{resource_id}-{when}", when, "", resource_id, project_id=project_id)
    return event | {"event_type": "instance.usage", "payload": {"usage": {"egress_gb": quantity}}}


def lines(metering: Connection, run: Run, dimension: str = "egress_gb") -> list[tuple[str, str, Decimal]]:
    """What a run writes of a dimension: (resource, project, amount)."""
    return metering.execute(
        """select resource_id, project_id, amount from ledger.rated_records
           where run_id = %s and dimension = %s order by resource_id, project_id, amount""",
        [run.id, dimension],
    ).fetchall()


@pytest.mark.slow
def test_late_usage_that_crosses_a_tier_corrects_all_that_share_it(
    reporting: Connection, metering: Connection, tmp_path: Path
) -> None:
    """S46: 15 GB at 10 are 150; one more, of another server, makes them 80: -150 and +80 on the original month.

    i-3 has moved from p-3 to p-1, so that p-1 shares a record with p-3, whose 16 GB stay at 5 each: what a correction
    derives again is whole in every group, and a correction of everything finds nothing that was left out.
    """
    load_april(metering, tmp_path)
    send(
        reporting,
        server("i-1", "p-1"), egress("i-1", "p-1", "04-10T00:00:00", 15), server("i-2", "p-1"),
        server("i-3", "p-3"), egress("i-3", "p-3", "04-05T00:00:00", 8),
        instance("m-1", "04-20T00:00:00", "resize.end", "i-3", size=SMALL, project_id="p-1"),
        server("i-4", "p-3"), egress("i-4", "p-3", "04-05T00:00:00", 8), server("i-5", "p-5"),
    )
    regular = run_month(reporting, metering, "2026-04")
    assert lines(metering, regular) == [
        ("i-1", "p-1", Decimal("150.00")), ("i-3", "p-3", Decimal("40.00")), ("i-4", "p-3", Decimal("40.00")),
    ]
    assert {amount for _, _, amount in lines(metering, regular, "vcpus")} == {
        Decimal("20.00"), Decimal("18.24"), Decimal("1.76"),
    }
    send(reporting, egress("i-2", "p-1", "04-11T00:00:00", 1))
    correction = run_month(reporting, metering, "2026-04")
    assert (correction.scope, correction.corrects_run_id) == ("changed", regular.id)
    assert lines(metering, correction) == [
        ("i-1", "p-1", Decimal("-150.00")), ("i-1", "p-1", Decimal("75.00")), ("i-2", "p-1", Decimal("5.00")),
    ]
    everything = run_month(reporting, metering, "2026-04", request=CorrectionRequest(everything=True, reason="a test"))
    assert (everything.scope, lines(metering, everything)) == ("all", [])
    assert told(metering, correction, Decimal("75.00")) == (
        "units: 15",
        "tier: all 16 of the project in the month at 5: 15 x 5 = 75",
        "exactly 270000000000 / 3600000000",
        "75.00: rounded once, half up (away from zero), to 2 decimals",
    )
    assert told(metering, correction, Decimal("-150.00"))[2] == "negated: it takes back the record that it reverses"
    assert told(metering, regular, Decimal("1.76"))[-3] == (
        "cap: at most 20 of the resource in the month; 18.24 came before, so that of 10.56 it is charged 1.76"
    )
    names = Names("Example Cloud", "Example Cloud", "Example Cloud")
    april = BillingPeriod.parse("2026-04")
    written = export_focus(metering, april, "csv", tmp_path / "focus", names, day("2026-06-01"))
    charged = [
        [row[name] for name in ("ResourceId", "ListUnitPrice", "PricingQuantity", "BilledCost")]
        for row in csv.DictReader(written[1].read_text("utf-8").splitlines())
        if row["SkuMeter"] == "egress_gb"
    ]
    assert charged == [
        ["os-prod-eu1/instance/i-1", "10.0", "-15.0", "-150.00"], ["os-prod-eu1/instance/i-1", "5.0", "15.0", "75.00"],
        ["os-prod-eu1/instance/i-2", "5.0", "1.0", "5.00"],
    ]
    for fault in ("amount = amount + 0.01", """basis = basis || '{"before": 1}'""", "basis = null"):
        assert offenders(metering, everything, fault) == {"i-1"}


def offenders(metering: Connection, run: Run, fault: str) -> set[str]:
    """Whom the check of terms names after somebody has changed what i-1 is charged."""
    with metering.transaction(force_rollback=True):
        where = "where resource_id = 'i-1' and dimension = 'egress_gb'"
        statement = f"update metering.int_rated_records set {fault} {where}"
        metering.execute(statement.encode())
        rows = metering.execute(invariant("amount_keeps_terms").query(run).encode()).fetchall()
    return {row[2] for row in rows}


def told(metering: Connection, run: Run, amount: Decimal) -> tuple[str, ...]:
    """How the one record of a run with that amount is explained; working it out again comes to the same cent."""
    ((record_id,),) = metering.execute(
        "select id from ledger.rated_records where run_id = %s and amount = %s", [run.id, amount]
    ).fetchall()
    found = explain(metering, record_id, run.period)
    assert found.holds
    assert found.working is not None
    return found.working.lines
