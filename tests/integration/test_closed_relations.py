"""Relations that adjust prices and are closed inside a month: bills, kickbacks and corrections, from the events on.

All is told in Berlin, whose March begins on 28 February at 23:00. An m1.large costs 0.20 an hour: 148.60 for the 743
hours of March, 144.00 for the 720 of April.
"""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from tally.domain.graph import Relation
from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services.bills import bills
from tally.services.kickbacks import kickbacks
from tally.services.late import finalized_periods
from tally.services.late_effect import late
from tally.services.projects import create_project
from tally.services.relations import Change, close_relation, patch_relation, relate
from tally.store.database import Connection
from tally.store.metering.adjustments import select_adjustments
from tests.integration.closing import LARGE, instance
from tests.integration.month_by_hand import run_month
from tests.integration.sending import NOW, send

BERLIN = "Europe/Berlin"
CLOUD = "os-prod-eu1"
FEBRUARY, MID_MARCH, MARCH_20 = "2026-02-01T00:00:00Z", "2026-03-15T12:00:00Z", "2026-03-20T00:00:00Z"
MARCH_BEGINS, IN_ITS_FIRST_HOUR = "2026-02-28T23:00:00Z", "2026-02-28T23:30:00Z"


def closed(
    reporting: Connection,
    project: str,
    rate: str,
    since: str = FEBRUARY,
    until: str | None = MID_MARCH,
    *,
    partner: str = "corp",
    relation_type: str = "managed_by",
    kind: str = "discount",
) -> Relation:
    """Relate a project to a partner, and close the relation afterwards, as somebody does who learns of its end."""
    agreed = {"pricing_adjustments": [{"type": kind, "rate": Decimal(rate)}]} if rate else {}
    ends = f"{CLOUD}/{project}", f"{CLOUD}/{partner}"
    relation = relate(reporting, *ends, relation_type, parse_instant(since), None, agreed, by()).relation
    return close_relation(reporting, relation.id, parse_instant(until), by()).relation if until else relation


def by(metering: Connection | None = None, reason: str | None = None) -> Change:
    return Change("test", NOW, finalized_periods(metering) if metering else (), BERLIN, reason)


def close_month(reporting: Connection, metering: Connection, period: str) -> Run:
    return run_month(reporting, metering, period, BERLIN, now=NOW)


def totals(metering: Connection, period: str) -> dict[str, str]:
    return {bill.project_id: str(bill.total) for bill in bills(metering, BillingPeriod.parse(period, BERLIN))}


def lines(metering: Connection, run: Run, project: str) -> list[tuple[str, str]]:
    """The adjustments of a bill that count: with whom, and what they come to."""
    rows = select_adjustments(metering, run.id)
    return sorted((row.agreed.target_project_id, str(row.amount)) for row in rows if row.project_id == project)


@pytest.fixture
def relations(reporting: Connection) -> Mapping[str, Relation]:
    """Projects of an m1.large each since February, and what was agreed on for them."""
    projects = ("ended", "inside", "first-hour", "before", "renegotiated", "moved", "member", "owing")
    send(reporting, *(instance(name, "02-10T08:00:00", "create.end", name, size=LARGE, project_id=name)
                      for name in projects))  # fmt: skip
    for name in (*projects, "corp", "other", "club"):
        about: dict[str, Any] = {"platform": "openstack", "cloud": CLOUD, "name": None, "metadata": {}}
        create_project(reporting, external_id=name, actor="test", **about)
    closed(reporting, "club", "0.1", until=None)
    closed(reporting, "renegotiated", "0.2")
    closed(reporting, "moved", "0.1")
    return {
        "ended": closed(reporting, "ended", "0.1"),
        "inside": closed(reporting, "inside", "0.1", MID_MARCH, MARCH_20),
        "first-hour": closed(reporting, "first-hour", "0.1", until=IN_ITS_FIRST_HOUR),
        "before": closed(reporting, "before", "0.1", until=MARCH_BEGINS),
        "renegotiated": closed(reporting, "renegotiated", "0.1", MID_MARCH, None),
        "moved": closed(reporting, "moved", "0.1", MID_MARCH, None, partner="other"),
        "member": closed(reporting, "member", "", partner="club", relation_type="member_of"),
        "owing": closed(reporting, "owing", "0.1", kind="kickback"),
    }


@pytest.mark.slow
def test_what_is_closed_inside_a_month_counts_for_all_of_it_and_no_longer(
    reporting: Connection, metering: Connection, relations: Mapping[str, Relation]
) -> None:
    """10 % of 148.60 are 14.86. Of two agreements with one partner the later counts, of two with two partners both."""
    march = close_month(reporting, metering, "2026-03")
    assert totals(metering, "2026-03") == {
        "ended": "133.74", "inside": "133.74", "first-hour": "133.74", "before": "148.60", "renegotiated": "133.74",
        "moved": "120.37", "member": "133.74", "owing": "148.60",
    }
    assert lines(metering, march, "renegotiated") == [("corp", "-14.86")]
    partners, discounts = zip(*lines(metering, march, "moved"), strict=True)
    assert partners == ("corp", "other")
    assert sorted(discounts) == ["-13.37", "-14.86"]  # the first by its id has the whole amount
    assert [(owed.project_id, str(owed.amount)) for owed in kickbacks(metering, "2026-03").partners] == [
        ("corp", "14.86"),
    ]

    close_month(reporting, metering, "2026-04")
    assert totals(metering, "2026-04") == {
        "ended": "144.00", "inside": "144.00", "first-hour": "144.00", "before": "144.00", "renegotiated": "129.60",
        "moved": "129.60", "member": "144.00", "owing": "144.00",
    }
    assert kickbacks(metering, "2026-04").partners == ()

    # Another end inside the month changes nothing that is finalized: it needs no reason, and corrects nothing.
    for name, until in (("ended", MARCH_20), ("moved", "2026-04-10T00:00:00Z")):
        patch = patch_relation(reporting, relations[name].id, {"valid_to": parse_instant(until)}, by(metering))
        assert (patch.changed, list(patch.late_for)) == (True, [])
    for period in ("2026-03", "2026-04"):
        assert late(reporting, metering, period).relations == ()
    nothing = close_month(reporting, metering, "2026-03")
    assert metering.execute("select count(*) from ledger.bills where run_id = %s", [nothing.id]).fetchone() == (0,)

    why = by(metering, "the contract says so")
    ended = patch_relation(reporting, relations["ended"].id, {"valid_to": parse_instant(MARCH_BEGINS)}, why)
    inside = patch_relation(reporting, relations["inside"].id, {"valid_to": parse_instant("2026-04-01T12:00:00Z")}, why)
    owing = patch_relation(reporting, relations["owing"].id, {"valid_to": parse_instant(FEBRUARY)}, why)
    assert [list(each.late_for) for each in (ended, inside, owing)] == [["2026-03"], ["2026-04"], ["2026-03"]]
    assert [len(late(reporting, metering, period).relations) for period in ("2026-03", "2026-04")] == [2, 1]
    corrected = close_month(reporting, metering, "2026-03")
    counting = totals(metering, "2026-03")
    assert [counting[name] for name in ("ended", "inside", "owing")] == ["148.60", "133.74", "148.60"]
    assert lines(metering, corrected, "ended") == []
    assert kickbacks(metering, "2026-03").partners == ()
    close_month(reporting, metering, "2026-04")
    assert totals(metering, "2026-04")["inside"] == "129.60"
