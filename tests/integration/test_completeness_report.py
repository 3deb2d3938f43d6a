"""The completeness report of a closed month: what it finds, what the policy makes of it, who waives it (rule 19)."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal

import psycopg
import pytest

from tally.domain.completeness import Line, Policy, Rule, Spans
from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.instants import parse_instant
from tally.domain.run import Run
from tally.services import finalize, runs
from tally.services.completeness import kept_report, record, report, waivers_of
from tally.services.completeness_policy import shipped_policy
from tally.services.load import load
from tally.services.waivers import list_waivers, read_until, waive
from tally.store.database import Connection, connected
from tally.store.metering.runs import live_run
from tally.store.reporting import syncs
from tally.store.reporting.rejected import DeadLetter, add
from tally.store.reporting.syncs import ListingRow
from tests.integration.closing import AFTER_GRACE, PERIOD, SMALL, House, failed_steps, instance

NOW = parse_instant(AFTER_GRACE)
CLOUD = "os-prod-eu1"
GRACE = timedelta(hours=72)
OPEN_LEFT = (
    "insert into ledger.findings (run_id, kind, cloud, platform, resource_type, subject, detail)"
    " select id, 'open_left', 'os-prod-eu1', 'openstack', 'instance', 'i-7', 'd' from ledger.runs"
)


def lines(house: House, policy: Policy | None = None, now: datetime = NOW) -> Sequence[Line]:
    """What the report of the small month says."""
    with house.connected() as (reporting, metering):
        return report(reporting, metering, str(PERIOD), policy or shipped_policy(), now).lines


def kinds(house: House, policy: Policy | None = None) -> dict[str, int]:
    """How many of each kind it names, but for projects that nobody has registered."""
    return {line.kind: line.count for line in lines(house, policy) if line.kind != "unknown_project"}


def letter(event_id: str, raw: str, reason: str = "unknown_event_type") -> DeadLetter:
    """A rejected event."""
    return DeadLetter(CLOUD, event_id, event_id.encode(), reason, "d", raw.encode(), "openstack", "instance")


def reject(house: House, *letters: DeadLetter) -> None:
    with connected(house.reporting_url) as reporting:
        add(reporting, letters)


def synced(house: House, finished: str, *listings: ListingRow, status: str = "completed") -> None:
    """Note a reconciliation."""
    with connected(house.reporting_url) as reporting:
        sync_id = syncs.begin(reporting, CLOUD, "test", parse_instant(finished), accept_deletions=False)
        syncs.finish(reporting, sync_id, CLOUD, status, parse_instant(finished), listings)


def waived(house: House, kind: str, now: datetime = NOW, until: datetime | None = None, cloud: str = "") -> bool:
    """Waive a kind; whether that is new."""
    with house.connected() as (reporting, metering):
        by = (shipped_policy(), "clerk", now)
        return waive(reporting, metering, PERIOD, kind, "known", *by, cloud=cloud, until=until)[1]


def finalized(house: House, policy: Policy | None = None) -> Run:
    with house.connected() as (reporting, metering), runs.metering_lock(metering):
        return finalize.finalize(reporting, metering, PERIOD, GRACE, lambda: NOW, policy)


def test_a_month_that_is_complete_has_nothing_that_blocks(house: House) -> None:
    """Projects that are not registered are told, and do not stand in the way."""
    assert {(line.kind, line.action) for line in lines(house)} == {("unknown_project", "warn")}
    with house.connected() as (reporting, metering), pytest.raises(NotFound, match="2026-02 has no completed run"):
        report(reporting, metering, "2026-02", shipped_policy(), NOW)


def test_a_dead_letter_counts_in_the_month_that_it_tells_of(house: House) -> None:
    """By reason, until it is replayed; one that tells no time, or one after its arrival, counts when it came."""
    reject(
        house,
        letter("a", '{"timestamp": "2026-03-01T00:00:00Z"}'),
        letter("b", '{"timestamp": "2026-03-31T23:59:59.999999Z"}'),
        letter("c", '{"time": "2026-03-31T23:59:59Z", "specversion": "1.0"}', "invalid_event"),
        letter("before", '{"timestamp": "2026-02-28T23:59:59Z"}'),
        letter("after", '{"timestamp": "2026-04-01T00:00:00Z"}'),
        letter("never", '{"timestamp": "2206-03-01T00:00:00Z"}'),
        letter("nothing", "}"),
    )
    (line,) = [line for line in lines(house) if line.kind == "dead_letter"]
    assert (line.cloud, line.count, line.action, line.at_risk, line.untold) == (CLOUD, 3, "block", None, 3)
    assert [example.partition(":")[0] for example in line.examples] == [
        "openstack instance invalid_event",
        "openstack instance unknown_event_type",
    ]
    with connected(house.reporting_url) as reporting:
        reporting.execute("update reporting.rejected_events set replayed_at = now()")
    assert kinds(house) == {}


def test_a_cloud_whose_collector_stopped_is_stale(house: House) -> None:
    """Its last event is of 03-25T00:00:00: silent for the last 167 hours, but not for the last 168."""
    assert kinds(house) == {}
    assert kinds(house, replace(shipped_policy(), events=timedelta(hours=167))) == {"stale_events": 1}
    lenient = replace(shipped_policy(), events=timedelta(hours=1), clouds={CLOUD: Spans(events=timedelta(days=9))})
    assert kinds(house, lenient) == {}


def test_a_cloud_whose_reconciliation_stopped_is_stale_until_it_is_reconciled_again(house: House) -> None:
    """One that never was reconciled is not; a sync that did not compare everything does not count."""
    synced(house, "2026-03-30T23:59:59Z")
    synced(house, "2026-03-31T12:00:00Z", status="incomplete")
    assert kinds(house) == {"stale_sync": 1}
    synced(house, "2026-04-20T00:00:00Z")
    assert kinds(house) == {}


def test_a_listing_that_could_not_be_written_blocks(house: House) -> None:
    """The last one of the month, or soon after it, says what is missing on either side; a better one mends it."""

    def listing(when: str, **numbers: int) -> ListingRow:
        return ListingRow("instance", parse_instant(when), "compared", **numbers)

    synced(house, "2026-04-01T00:10:00Z", listing("2026-04-01T00:00:00Z", rejected=2, withheld=30))
    assert kinds(house) == {"listed_not_metered": 2, "metered_not_listed": 30}
    synced(house, "2026-06-01T00:10:00Z", listing("2026-06-01T00:00:00Z"))
    assert kinds(house) == {"listed_not_metered": 2, "metered_not_listed": 30}
    synced(house, "2026-04-01T00:20:00Z", listing("2026-04-01T00:15:00Z"))
    assert kinds(house) == {}


def test_a_resource_that_was_not_metered_is_worth_its_last_size_from_its_beginning(house: House) -> None:
    """A small instance of the whole last day, at the prices of the month."""
    house.ingest(instance("late", "03-31T00:00:00", "create.end", "i-9", size=SMALL))
    with house.connected() as (reporting, metering):
        load(reporting, metering, lambda: NOW)
    (line,) = [line for line in lines(house) if line.kind == "listed_not_metered"]
    a_month = house.query(
        "select sum(r.amount_exact / extract(epoch from u.to_ts - u.from_ts)::numeric) * 86400"
        " from ledger.rated_records as r inner join ledger.usage_records as u on u.id = r.usage_record_id"
        " where u.resource_id = 'i-2'"
    )
    assert line.count == 1
    assert line.untold == 0
    assert line.at_risk is not None
    assert abs(line.at_risk - Decimal(a_month[0][0])) < Decimal("0.02")
    assert "such as i-9" in line.examples[0]


def test_a_metered_resource_that_the_inventory_lacks_is_worth_what_it_was_charged(house: House) -> None:
    """The amounts of all its records."""
    with connected(house.metering_url) as metering:
        metering.execute("delete from raw.current_resources where resource_id = 'i-1'")
    (line,) = [line for line in lines(house) if line.kind == "metered_not_listed"]
    charged = house.query("select sum(amount) from ledger.rated_records where resource_id = 'i-1'")
    assert (line.count, line.at_risk) == (1, charged[0][0])


def test_what_was_never_judged_blocks(house: House) -> None:
    """A finding stands in the way until the policy has said that it does not."""
    with connected(house.metering_url) as metering:
        metering.execute(OPEN_LEFT.replace("open_left", "unlisted_type").encode())
        run = live_run(metering, str(PERIOD))
        assert run is not None
        assert [line.kind for line in kept_report(metering, run, NOW).lines if line.blocks] == ["unlisted_type"]
        with connected(house.reporting_url) as reporting:
            record(reporting, metering, run, shipped_policy())
        assert not kept_report(metering, run, NOW).blocks


def test_the_policy_alone_decides_what_blocks(house: House) -> None:
    """What is ignored is not listed as a finding; the policy of the moment of finalization counts."""
    with connected(house.metering_url) as metering:
        metering.execute(OPEN_LEFT.encode())
    with pytest.raises(Refused, match=r"1 finding.s. of kind open_left, such as os-prod-eu1 openstack instance i-7: d"):
        finalized(house)
    rules = dict(shipped_policy().rules) | {"open_left": Rule("ignore")}
    run = finalized(house, replace(shipped_policy(), rules=rules))
    with connected(house.metering_url) as metering:
        assert "open_left" not in {finding.kind for finding in runs.findings(metering, PERIOD)}
        assert ("open_left", "ignore") in {(line.kind, line.action) for line in kept_report(metering, run, NOW).lines}


def test_a_finalized_run_shows_what_was_known_then_and_by_which_waiver_it_passed(house: House) -> None:
    """Whatever is rejected, or waived, afterwards."""
    reject(house, letter("a", '{"timestamp": "2026-03-05T00:00:00Z"}'))
    with pytest.raises(Refused, match="of kind dead_letter"):
        finalized(house)
    assert waived(house, "dead_letter", until=NOW + timedelta(hours=1), cloud=CLOUD)
    run = finalized(house)
    reject(house, letter("b", '{"timestamp": "2026-03-06T00:00:00Z"}'))
    (line,) = [line for line in lines(house, now=NOW + timedelta(days=400)) if line.kind == "dead_letter"]
    assert line.count == 1
    assert not line.blocks
    with connected(house.metering_url) as metering:
        ((run_id, (waiver,)),) = waivers_of(metering, [run]).items()
    assert line.waiver == waiver
    assert (run_id, waiver.actor, waiver.reason, waiver.cloud) == (str(run.id), "clerk", "known", CLOUD)


def test_an_expired_waiver_no_longer_waives_and_another_may_follow(house: House) -> None:
    """At its end it is over. While it lasts, another one that ends no later changes nothing."""
    reject(house, letter("a", '{"timestamp": "2026-03-05T00:00:00Z"}'))
    early, hour = NOW - timedelta(hours=1), timedelta(hours=1)
    assert waived(house, "dead_letter", now=early, until=NOW)
    assert not waived(house, "dead_letter", now=early, until=NOW - hour / 2)
    with pytest.raises(Refused, match="of kind dead_letter"):
        finalized(house)
    assert waived(house, "dead_letter")
    assert not waived(house, "dead_letter", until=NOW + hour)
    assert finalized(house).status == "finalized"
    with connected(house.metering_url) as metering, connected(house.reporting_url) as reporting:
        assert [waiver.until for waiver in list_waivers(metering, str(PERIOD))] == [NOW, None]
        audited = reporting.execute(
            "select actor, subject, detail ->> 'kind' from reporting.audit_log where action = 'waiver.create'"
        ).fetchall()
    assert audited == [("clerk", "2026-03", "dead_letter")] * 2


def test_only_what_blocks_is_waived_and_only_with_a_reason(house: House) -> None:
    """Nobody waives in advance what nobody has looked at."""
    reject(house, letter("a", '{"timestamp": "2026-03-05T00:00:00Z"}'))
    with house.connected() as (reporting, metering):
        places = (reporting, metering, PERIOD)
        by = (shipped_policy(), "clerk", NOW)
        with pytest.raises(InvalidInput, match=r"needs a reason.*has passed.*'typo' is no kind of finding"):
            waive(*places, "typo", " ", *by, until=NOW)
        for kind, cloud in (("unknown_project", ""), ("open_left", ""), ("dead_letter", "elsewhere")):
            with pytest.raises(InvalidInput, match=r"no blocking finding of kind .*; what blocks it is dead_letter"):
                waive(*places, kind, "r", *by, cloud=cloud)
    assert [line.kind for line in lines(house) if line.blocks] == ["dead_letter"]


def test_the_end_of_a_waiver_is_an_instant_or_that_of_a_month() -> None:
    """A month is meant whole, in the zone of the installation."""
    assert read_until("2026-05", "UTC") == parse_instant("2026-06-01T00:00:00Z")
    assert read_until("2026-05", "Europe/Berlin") == parse_instant("2026-05-31T22:00:00Z")
    assert read_until("2026-05-01T12:00:00+02:00", "UTC") == parse_instant("2026-05-01T10:00:00Z")
    for text in ("", "May", "2026-5", "2026-13", "2026-05-01"):
        with pytest.raises(InvalidInput):
            read_until(text, "UTC")


@pytest.mark.parametrize(
    "statement", ["update ledger.run_waivers set waiver_id = waiver_id", "delete from ledger.run_waivers"]
)
def test_the_waivers_of_a_run_never_change(metering: Connection, statement: str) -> None:
    """The database refuses it."""
    with pytest.raises(psycopg.Error, match="its rows never change"):
        metering.execute(statement.encode())


def test_a_correction_that_was_refused_keeps_its_findings_until_they_are_waived(house: House) -> None:
    """Its records are gone; what it has found can be read, waived, and then it passes, and Dagster tells by whom."""
    finalized(house)
    reject(house, letter("a", '{"timestamp": "2026-03-05T00:00:00Z"}'))
    house.ingest(instance("late", "03-31T00:00:00", "create.end", "i-9", size=SMALL))
    assert failed_steps(house.launch()) == ["completed_run"]
    ((failed, failure),) = house.query("select id, failure from ledger.runs where status = 'failed'")
    assert "1 finding(s) of kind dead_letter" in failure
    for table, kept in (("usage_records", False), ("rated_records", False), ("bills", False), ("findings", True)):
        ((count,),) = house.query(f"select count(*) from ledger.{table} where run_id = '{failed}'")
        assert (count > 0) == kept, table
    assert [line.kind for line in lines(house) if line.blocks] == ["dead_letter"]
    assert waived(house, "dead_letter")
    result = house.close()
    (made,) = result.asset_materializations_for_node("completed_run")
    metadata = made.metadata
    assert metadata["blocking_findings"].value == 0
    assert "| dead_letter | os-prod-eu1 | 1 | block | by clerk: known |" in str(metadata["completeness"].value)
    with connected(house.metering_url) as metering:
        (correction,) = [run for run in runs.runs(metering) if (run.kind, run.status) == ("correction", "finalized")]
        assert [waiver.kind for waiver in waivers_of(metering, [correction])[str(correction.id)]] == ["dead_letter"]
