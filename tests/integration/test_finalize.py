"""Finalization is refused, with the reasons, while anything speaks against it (rules 18 and 19)."""

from datetime import timedelta

import pytest

from tally.domain.errors import InvalidInput, Refused
from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import runs
from tally.services.completeness_policy import shipped_policy
from tally.services.due import finalizations_due
from tally.services.finalize import finalize, refuse_early
from tally.services.load import load
from tally.services.relations import relate
from tally.services.waivers import waive
from tally.store.database import connected
from tests.integration.closing import AFTER_GRACE, PERIOD, SMALL, House, failed_steps, instance
from tests.integration.registering import TENANT, change, create, day

GRACE = timedelta(hours=72)
EGRESS = {"usage": {"egress_gb": 1}}


def attempt(house: House, now: str = AFTER_GRACE, period: BillingPeriod = PERIOD) -> Run:
    with house.connected() as (reporting, metering), runs.metering_lock(metering):
        return finalize(reporting, metering, period, GRACE, lambda: parse_instant(now))


def reasons(house: House, now: str = AFTER_GRACE, period: BillingPeriod = PERIOD) -> tuple[str, ...]:
    with pytest.raises(Refused) as refused:
        attempt(house, now, period)
    assert house.query("select count(*) from ledger.runs where status = 'finalized'") == [(0,)]
    return refused.value.reasons


def attempt_is_welcome(house: House) -> bool:
    """Whether nothing speaks against finalizing; it is not done."""
    with house.connected() as (reporting, metering):
        load(reporting, metering, lambda: parse_instant(AFTER_GRACE))
        (due,) = finalizations_due(reporting, metering, "UTC", GRACE, parse_instant(AFTER_GRACE)).values()
    return due == []


def change_ledger(house: House, statement: str) -> None:
    with connected(house.metering_url) as metering:
        metering.execute(statement.encode())


def test_a_month_after_its_grace_is_finalized_once(house: House) -> None:
    """The live run becomes immutable; a second time is refused, and a new run of the month is a correction."""
    run = attempt(house)
    assert (run.status, run.finalized_at) == ("finalized", parse_instant(AFTER_GRACE))
    with pytest.raises(Refused, match="finalized already"):
        attempt(house)
    house.close()
    assert house.query("select kind, status from ledger.runs order by started_at") == [
        ("regular", "finalized"),
        ("correction", "finalized"),
    ]


def test_the_job_finalizes_by_the_same_rules(house: House) -> None:
    """Dagster adds nothing to the decision: in grace the job fails, after it the job succeeds."""
    assert failed_steps(house.launch("finalize_month", now="2026-04-02T00:00:00Z")) == ["finalized_period"]
    assert house.launch("finalize_month").success
    assert house.query("select status from ledger.runs") == [("finalized",)]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        ("2026-03-31T23:59:59.999999Z", "it ends only at 2026-04-01T00:00:00Z"),
        ("2026-04-01T00:00:00Z", "its grace ends only at 2026-04-04T00:00:00Z"),
        ("2026-04-03T23:59:59.999999Z", "its grace ends only at 2026-04-04T00:00:00Z"),
    ],
)
def test_too_early_is_refused_to_the_microsecond(house: House, now: str, reason: str) -> None:
    """The period ends at its half-open end, grace 72 hours later."""
    assert reasons(house, now) == (reason,)
    with connected(house.metering_url) as metering, pytest.raises(Refused, match=reason):
        refuse_early(metering, PERIOD, GRACE, parse_instant(now))


def test_the_first_instant_after_grace_is_late_enough(house: House) -> None:
    """Grace is half-open as well."""
    assert attempt(house, "2026-04-04T00:00:00Z").status == "finalized"


def test_a_month_without_a_run_is_refused(house: House) -> None:
    """There is nothing to finalize before a run is completed."""
    assert reasons(house, period=BillingPeriod.parse("2026-02")) == (
        "it has no completed run; close it: tally close 2026-02",
    )


def test_a_missing_or_failed_check_is_named(house: House) -> None:
    """A run without a passed verdict on each invariant is not proved."""
    change_ledger(house, "delete from ledger.checks where name in ('coverage', 'no_gap')")
    change_ledger(
        house,
        "insert into ledger.checks (run_id, name, passed, violations, detail)"
        " select id, 'no_gap', false, 3, 'i-1 has a gap' from ledger.runs",
    )
    missing = "not checked in its run: coverage; close it again: tally close 2026-03"
    assert reasons(house) == (missing, "check no_gap failed: i-1 has a gap")


def test_blocking_findings_are_refused_until_they_are_waived(house: House) -> None:
    """Each kind is named with its number and one example; a waiver with a reason lets it pass."""
    change_ledger(
        house,
        "insert into ledger.findings (run_id, kind, blocking, cloud, platform, resource_type, subject, detail)"
        " select id, 'open_left', true, 'os-prod-eu1', 'openstack', 'instance', subject, 'd'"
        " from ledger.runs cross join (values ('i-7'), ('i-8')) as found (subject)",
    )
    (reason,) = reasons(house)
    assert reason.startswith("2 finding(s) of kind open_left, such as os-prod-eu1 openstack instance i-7: d; mend them")
    with house.connected() as (reporting, metering):
        by = (shipped_policy(), "clerk", parse_instant(AFTER_GRACE))
        with pytest.raises(InvalidInput, match="no blocking finding of kind 'anomaly'; what blocks it is open_left"):
            waive(reporting, metering, PERIOD, "anomaly", "a slip of the pen", *by)
        waive(reporting, metering, PERIOD, "open_left", "began before Tally did", *by)
    assert attempt(house).status == "finalized"


def test_an_event_outside_the_run_is_refused(house: House) -> None:
    """Rule 18: what has arrived since would change the records, so the month is closed again first."""
    house.ingest(instance("late", "03-30T00:00:00", "create.end", "i-9", size=SMALL))
    not_metered, outside = reasons(house)
    assert not_metered.startswith("1 finding(s) of kind listed_not_metered, such as os-prod-eu1 openstack instance")
    assert outside == "1 event(s) arrived after its run; close it again: tally close 2026-03"


def test_an_event_of_the_next_month_does_not_matter(house: House) -> None:
    """It cannot change a record of this one."""
    house.ingest(instance("next", "04-01T00:00:00", "create.end", "i-9", size=SMALL))
    assert attempt(house).status == "finalized"


def test_usage_at_the_very_end_is_not_of_the_next_month(house: House) -> None:
    """Rule 15: where a life ends, usage of that instant counts in it."""
    house.ingest(instance("end", "04-01T00:00:00", "delete.end", "i-2", project_id="p-2", payload=EGRESS))
    assert reasons(house)[-1] == "1 event(s) arrived after its run; close it again: tally close 2026-03"


def test_a_later_event_that_voids_what_reconciliation_said_is_refused(house: House) -> None:
    """Rule 9: a collector's create of April takes back the life that a listing of March had begun, no update does."""
    listed = instance("seen", "03-10T00:00:00", "create.end", "i-9", size=SMALL)
    house.ingest(listed | {"event_type": "reconcile.create", "source": "reconciliation"})
    house.close()
    house.ingest(instance("on", "04-02T00:00:00", "power_on.end", "i-9"))
    house.ingest(instance("next", "04-03T00:00:00", "delete.end", "i-9"))
    assert attempt_is_welcome(house)
    house.ingest(instance("made", "04-02T12:00:00", "create.end", "i-9", size=SMALL))
    assert reasons(house) == ("2 event(s) arrived after its run; close it again: tally close 2026-03",)


def test_a_relation_that_the_run_has_not_read_is_refused(house: House) -> None:
    """Rule 28: who pays for whom in the month would be another; what holds in other months only does not matter."""
    with connected(house.reporting_url) as reporting:
        for name in ("p-1", "p-2"):
            create(reporting, name, cloud="os-prod-eu1")
        related = ("os-prod-eu1/p-1", "os-prod-eu1/p-2", TENANT)
        relate(reporting, *related, day("2026-04-01"), None, None, change())
        assert attempt_is_welcome(house)
        relate(reporting, *related, day("2026-03-31"), day("2026-04-01"), None, change())
    told = "1 version(s) of relations between projects were written after its run; close it again: tally close 2026-03"
    assert reasons(house) == (told,)


def test_a_run_in_the_making_is_refused(house: House) -> None:
    """A half-made run would replace what is about to become immutable."""
    with house.connected() as (reporting, metering):
        run = runs.start(reporting, metering, PERIOD, lambda: parse_instant(AFTER_GRACE))
    (reason,) = reasons(house)
    assert reason.startswith(f"run {run.id} is being made")


def test_a_preliminary_run_is_refused(house: House) -> None:
    """Rule 13: month to date is never finalized."""
    change_ledger(house, "update ledger.runs set preliminary = true")
    assert reasons(house) == ("its run is preliminary (month to date); close it again now that it has ended",)


def test_another_zone_is_refused(house: House) -> None:
    """The zone is stored with the run; it is closed again if the installation's zone has changed since."""
    assert any("zone" in reason for reason in reasons(house, period=BillingPeriod.parse("2026-03", "Europe/Berlin")))
