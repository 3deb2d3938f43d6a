"""Corrections of several months, of months in zones, after a mended rule, and corrections that are refused.

An m1.large costs 4 x 0.02 + 8 x 0.005 + 80 x 0.001 = 0.20 an hour, a volume of 100 GB 0.01.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from tally.domain.counter import CounterSource
from tally.domain.errors import Blocked, InvalidInput
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.domain.samples import Line, to_milliseconds
from tally.services.completeness_policy import shipped_policy
from tally.services.correct import CorrectionRequest
from tally.services.counters import Counters
from tally.services.pricing import load_price_versions
from tally.services.waivers import waive
from tally.store.database import Connection
from tests.conftest import REPOSITORY
from tests.integration.closing import LARGE, instance
from tests.integration.metering_sql import NOW
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send

APRIL_2, APRIL_10 = datetime(2026, 4, 2, tzinfo=UTC), datetime(2026, 4, 10, tzinfo=UTC)
DECEMBER = datetime(2026, 12, 1, tzinfo=UTC)


def volume(event_id: str, timestamp: str, event_type: str, resource_id: str = "v-1") -> dict[str, Any]:
    """An event of a volume of 100 GB at an instant."""
    event = instance(event_id, "", "", resource_id, size={"size_gb": 100, "type": "ssd"})
    return event | {"timestamp": timestamp, "event_type": f"volume.{event_type}.end", "resource_type": "volume"}


def written(metering: Connection, run: Run) -> tuple[int, Decimal, Decimal]:
    """How many usage records a run has written, and what it changes in minutes and money."""
    row = metering.execute(
        """select count(*), coalesce(sum((usage ->> 'minutes')::numeric), 0),
               (select coalesce(sum(total), 0.00) from ledger.bills where run_id = %(run_id)s)
           from ledger.usage_records where run_id = %(run_id)s""",
        {"run_id": run.id},
    ).fetchone()
    assert row is not None
    return row[0], row[1], row[2]


def load_prices_of_february(metering: Connection, folder: Path) -> None:
    """The prices of March, for the months before."""
    text = (REPOSITORY / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")
    (folder / "2026-01.yaml").write_text(text.replace('"2026-03', '"2026-01'), encoding="utf-8")
    load_price_versions(metering, folder)


@pytest.mark.slow
def test_s54_one_late_delete_corrects_two_months(reporting: Connection, metering: Connection, tmp_path: Path) -> None:
    """S54: m1.large since 1 February, deleted on the 20th, which is known on 5 April; both months are finalized.

    February is 672 h, 134.40, of which 456 h remain, 91.20: -43.20. March is 744 h, 148.80, of which nothing remains.
    Meanwhile April is run up to a day, again and again: that is preliminary, replaced, and never corrected.
    """
    load_prices_of_february(metering, tmp_path)
    send(reporting, instance("e-1", "02-01T00:00:00", "create.end", size=LARGE))
    february, march = (run_month(reporting, metering, period) for period in ("2026-02", "2026-03"))
    assert (written(metering, february)[2], written(metering, march)[2]) == (Decimal("134.40"), Decimal("148.80"))
    april = run_month(reporting, metering, "2026-04", now=APRIL_2, finalize=False)
    send(reporting, instance("e-2", "02-20T00:00:00", "delete.end"))
    corrected = run_month(reporting, metering, "2026-02")
    assert corrected.corrects_run_id == february.id
    assert written(metering, corrected) == (2, -9 * 24 * 60, Decimal("-43.20"))
    assert written(metering, april) == (1, 24 * 60, Decimal("4.80"))
    later = run_month(reporting, metering, "2026-04", now=APRIL_10, finalize=False)
    assert (later.kind, later.preliminary, written(metering, later)) == ("regular", True, (0, 0, 0))
    assert written(metering, run_month(reporting, metering, "2026-03")) == (1, -31 * 24 * 60, Decimal("-148.80"))
    for period in ("2026-02", "2026-03"):
        assert written(metering, run_month(reporting, metering, period)) == (0, 0, 0)
    assert written(metering, february) == (1, 28 * 24 * 60, Decimal("134.40"))


@pytest.mark.slow
def test_s27_months_of_a_zone_are_corrected_in_its_hours(reporting: Connection, metering: Connection) -> None:
    """S27: Berlin's March has 743 h and its October 745 h; the clocks change on 29 March at 01:00 UTC.

    March begins on 28 February at 23:00 UTC. Deleted as the clocks change, 674 h remain: 6.74 instead of 7.43, and
    nothing of October's 7.45.
    """
    send(reporting, volume("e-1", "2026-01-01T00:00:00Z", "create"))
    march, october = (run_month(reporting, metering, m, "Europe/Berlin", now=DECEMBER) for m in ("2026-03", "2026-10"))
    assert written(metering, march) == (1, 44_580, Decimal("7.43"))
    assert written(metering, october) == (1, 44_700, Decimal("7.45"))
    send(reporting, volume("e-2", "2026-03-29T01:00:00Z", "delete"))
    march, october = (run_month(reporting, metering, m, "Europe/Berlin", now=DECEMBER) for m in ("2026-03", "2026-10"))
    assert (march.kind, march.zone) == ("correction", "Europe/Berlin")
    assert written(metering, march) == (2, 674 * 60 - 44_580, Decimal("-0.69"))
    assert written(metering, october) == (1, -44_700, Decimal("-7.45"))


@pytest.mark.slow
def test_s26_an_event_on_the_boundary_corrects_the_month_that_it_ends(
    reporting: Connection, metering: Connection
) -> None:
    """S26: deleted at the first instant of April, late: March stays as it is. A microsecond earlier, it does not.

    Its record is a microsecond shorter then, which makes no cent: 7.44 is taken back and billed again.
    """
    send(reporting, volume("e-1", "2026-02-01T00:00:00Z", "create"))
    send(reporting, volume("e-2", "2026-02-01T00:00:00Z", "create", "v-2"))
    run_month(reporting, metering)
    send(reporting, volume("e-3", "2026-04-01T00:00:00Z", "delete"))
    send(reporting, volume("e-4", "2026-04-02T00:00:00Z", "resize", "v-2"))
    assert written(metering, run_month(reporting, metering)) == (0, 0, 0)
    send(reporting, volume("e-5", "2026-03-31T23:59:59.999999Z", "delete", "v-2"))
    assert written(metering, run_month(reporting, metering)) == (2, 0, 0)


def let_everything_be_active(metering: Connection) -> None:
    """A fault of the rule for states, as it might have been: what is switched off costs full."""
    metering.execute("update metering.int_usage_records set state = 'active'")


@pytest.mark.slow
def test_a_mended_rule_corrects_what_it_had_wrong_and_needs_a_reason(
    reporting: Connection, metering: Connection
) -> None:
    """m1.large, off from the 16th on: 384 h at half price are 38.40, and 76.80 were billed.

    A correction looks at what has arrived, and nothing has; asked for everything it finds the fault.
    """
    send(reporting, instance("e-1", "03-01T00:00:00", "create.end", size=LARGE))
    send(reporting, instance("e-2", "03-16T00:00:00", "power_off.end"))
    wrong = run_month(reporting, metering, derived=let_everything_be_active)
    assert written(metering, wrong)[2] == Decimal("148.80")
    assert written(metering, run_month(reporting, metering)) == (0, 0, 0)
    with pytest.raises(InvalidInput, match="reason"):
        CorrectionRequest(everything=True)
    mended = run_month(reporting, metering, request=CorrectionRequest(everything=True, reason="off was billed in full"))
    assert (mended.scope, mended.reason) == ("all", "off was billed in full")
    assert written(metering, mended) == (2, 0, Decimal("-38.40"))


class Gateway:
    """A server on which an instance has sent 10 GB until the 2nd of March."""

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:  # noqa: ARG002
        """The one sample that there is."""
        at = datetime(2026, 3, 2, tzinfo=UTC)
        if start <= at < end:
            yield Line({"id": "i-1"}, [to_milliseconds(at)], [10])


def sampled(metric: str) -> Counters:
    """What the gateway counts, taken for some metric."""
    kind = ("gateway", "openstack", "instance", metric, "sent_total", ("os-prod-eu1",), "id")
    return Counters(Gateway(), (CounterSource(*kind, unit=Decimal(1)),), timedelta(days=40))


@pytest.mark.slow
def test_a_source_that_was_taken_for_another_metric_is_corrected(reporting: Connection, metering: Connection) -> None:
    """The samples are the same: 10 GB of egress at 0.09 that were taken for ingress, which is free."""
    send(reporting, instance("e-1", "03-01T00:00:00", "create.end", size=LARGE))
    send(reporting, instance("e-2", "03-11T00:00:00", "delete.end"))
    wrong = run_month(reporting, metering, counters=sampled("ingress_gb"))
    assert written(metering, wrong)[2] == Decimal("48.00")
    again = CorrectionRequest(counters=True, reason="the source is of egress")
    mended = run_month(reporting, metering, counters=sampled("egress_gb"), request=again)
    assert mended.scope == "changed"
    assert written(metering, mended) == (2, 0, Decimal("0.90"))


def lose_a_record(metering: Connection) -> None:
    """A fault that the check of coverage finds."""
    metering.execute("delete from metering.int_usage_records")


@pytest.mark.slow
def test_a_correction_that_is_refused_leaves_nothing(reporting: Connection, metering: Connection) -> None:
    """A violated check, or a finding that blocks and is not waived: what counts is what was finalized before.

    Late are the delete of 20 March, 456 h or 91.20 of 148.80, and usage of an instance that nobody has created.
    """
    send(reporting, instance("e-1", "02-01T00:00:00", "create.end", size=LARGE))
    month = run_month(reporting, metering)
    send(reporting, instance("e-2", "03-20T00:00:00", "delete.end"))
    stray = instance("e-3", "03-10T00:00:00", "", "stray", payload={"usage": {"egress_gb": 1}})
    send(reporting, stray | {"event_type": "instance.usage"})
    with pytest.raises(AssertionError, match="coverage"):
        run_month(reporting, metering, derived=lose_a_record)
    with pytest.raises(Blocked, match="cannot be finalized"):
        run_month(reporting, metering)
    assert metering.execute("select kind, status from ledger.runs order by load_id").fetchall() == [
        ("regular", "finalized"), ("correction", "failed"), ("correction", "failed"),
    ]
    tables = ("usage_records", "rated_records", "attributions", "bills")
    for table in tables:
        query = f"select distinct run_id from ledger.{table}"
        assert metering.execute(query.encode()).fetchall() == [(month.id,)], table
    period = BillingPeriod.parse("2026-03")
    waive(reporting, metering, period, "anomaly", "of a test cloud", shipped_policy(), "clerk", NOW)
    corrected = run_month(reporting, metering)
    assert (corrected.kind, corrected.status) == ("correction", "finalized")
    assert written(metering, corrected) == (2, -12 * 24 * 60, Decimal("-57.60"))
