"""What went wrong elsewhere, metered and rated right: each scenario is a cloud of its own, in one March of 2026.

All go through the ingest service, the load and dbt; a test reads what became of its own cloud.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import permutations
from typing import Any

import pytest

from tally.domain.errors import Refused
from tally.domain.instants import format_instant, parse_instant
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import runs
from tally.store.database import Connection
from tests.conftest import fresh_databases
from tests.integration.metering_sql import USAGE, meter
from tests.integration.sending import event, send

SMALL = {"vcpus": 2, "ram_gb": 4, "disk_gb": 40, "flavor": "m1.small"}
LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
MARCH_MINUTES = 44_640


@dataclass(frozen=True)
class Record:
    """One usage record, with its costs by dimension."""

    resource_id: str
    project_id: str
    state: str
    lifetime_no: int
    from_ts: str
    to_ts: str
    minutes: Decimal
    usage: Mapping[str, Any]
    costs: Mapping[str, Decimal]
    exact: Decimal


@dataclass(frozen=True)
class Metered:
    """What became of the scenarios: March, March again after an event of April, and April."""

    march: Mapping[str, Sequence[Record]]
    march_again: Mapping[str, Sequence[Record]]
    april: Mapping[str, Sequence[Record]]
    findings: set[tuple[str, str, str]]   # (cloud, kind, subject)
    rejected: set[tuple[str, str]]        # (event_id, reason)


def instance(cloud: str, event_id: str, when: str, what: str, **fields: Any) -> dict[str, Any]:
    """An event of an instance in a cloud of its own; ``what`` is the middle of nova's event type."""
    sent = {"cloud": cloud, "resource_type": "instance", "resource_id": "i"} | fields
    return event(f"{cloud}/{event_id}", when, f"compute.instance.{what}.end", **sent)


def volume(cloud: str, event_id: str, when: str, what: str, **fields: Any) -> dict[str, Any]:
    """An event of a volume in a cloud of its own."""
    return event(f"{cloud}/{event_id}", when, f"volume.{what}", **({"cloud": cloud} | fields))


def at(moment: datetime, sent: Mapping[str, Any]) -> dict[str, Any]:
    """The same event at another instant."""
    return {**sent, "timestamp": format_instant(moment)}


def size(**dimensions: Any) -> dict[str, Any]:
    """A payload that tells a size."""
    return {"size": dimensions}


def scenarios() -> Iterator[dict[str, Any]]:
    """The events of all scenarios, in the order in which they arrive."""
    yield from (
        instance("S01", "1", "10T06:04:28", "create", payload=size(**LARGE)),
        instance("S01", "2", "10T06:04:56", "delete"),
        event("S01/3", "10T06:04:40", "instance.usage", "i", cloud="S01", resource_type="instance",
              payload={"usage": {"egress_gb": 1}}),
        instance("S01", "4", "10T06:05:10", "power_off"),
    )
    yield from (
        volume("S02", "1", "02T00:00:00", "create.end", resource_id="v1", payload=size(size_gb=10, type="ssd")),
        volume("S02", "2", "03T00:00:00", "create.end", resource_id="v2", payload=size(size_gb=10, type="ssd")),
        event("S02/3", "04T00:00:00", "snapshot.delete.end", "v1", cloud="S02"),
    )
    for number, order in enumerate(permutations(("create", "resize.confirm", "finish_resize"))):
        sizes = {"create": SMALL, "finish_resize": LARGE, "resize.confirm": SMALL | {"flavor": "m1.tiny"}}
        names = {"create": "1", "finish_resize": "3", "resize.confirm": "2"}
        for what in order:
            yield instance(f"S07-{number}", names[what], "16T00:00:00", what, payload=size(**sizes[what]))
    yield from (
        event("S13/1", "01T00:00:00", "floatingip.create.end", "ip", cloud="S13", resource_type="floating_ip",
              payload={"state": "ERROR", "status": 3, "size": {"ip_version": 4}}),
        event("S13/2", "16T00:00:00", "floatingip.delete.end", "ip", cloud="S13", resource_type="floating_ip"),
        event("S13/3", "17T00:00:00", "floatingip.create.end", "ip2", cloud="S13", resource_type="floating_ip",
              payload={"state": None, "size": {"ip_version": 4}}),
    )
    for number, (when, size_gb) in enumerate((("01", 100), ("10", 200), ("12", 300), ("20", 400))):
        what = "resize.end" if number else "create.end"
        yield volume("S19", str(number), f"{when}T00:00:00", what, payload=size(size_gb=size_gb, type="ssd"))
    yield from (
        instance("S21", "1", "05T10:00:00", "create", payload=size(**SMALL)),
        instance("S21", "2", "05T10:20:00", "finish_resize", payload=size(**LARGE)),
        instance("S21", "3", "05T11:00:00", "delete"),
        instance("S21", "4", "31T23:00:00", "create", resource_id="kept", payload=size(**SMALL)),
        volume("S22", "1", "01T00:00:00", "create.end", project_id="A", payload=size(size_gb=100, type="ssd")),
        volume("S22", "2", "15T12:00:00", "transfer.accept.end", project_id="B"),
        instance("S23", "1", "05T12:00:00", "create", payload=size(**SMALL)),
        instance("S23", "2", "05T17:00:00", "delete"),
        instance("S23", "3", "05T19:00:00", "create", payload=size(**SMALL)),
        instance("S23", "4", "05T22:00:00", "delete"),
    )
    for name, seconds in (("none", 0), ("one", 1), ("thirty", 30)):
        end = parse_instant("2026-03-07T08:00:00Z") + timedelta(seconds=seconds)
        yield instance("S24", f"{name}-1", "07T08:00:00", "create", resource_id=name, payload=size(**SMALL))
        yield at(end, instance("S24", f"{name}-2", "07T08:00:00", "delete", resource_id=name))
    yield from (
        instance("S25", "1", "07T00:00:00", "create", payload=size(**SMALL)),
        instance("S25", "2", "08T00:00:00", "delete"),
        instance("S26", "1", "01T00:00:00", "create", payload=size(**SMALL)),
        at(parse_instant("2026-04-01T00:00:00Z"), instance("S26", "2", "01T00:00:00", "power_off")),
        volume("S43", "1", "01T00:00:00", "create.end", payload=size(size_gb=1, type="SSD")),
        volume("S37", "1", "01T00:00:00", "create.end", payload=size(size_gb=-5, type="ssd")),
        event("S42/1", "01T00:00:00", "nic.create", "n", cloud="S42", platform="ionos", resource_type="nic",
              payload=size(lan_id=1)),
    )
    start = parse_instant("2026-03-01T00:00:00Z")
    for number in range(MARCH_MINUTES // 5):
        what = "finish_resize" if number else "create"
        moment = start + number * timedelta(minutes=5)
        payload = size(**LARGE | {"flavor": str(number % 2)})
        yield at(moment, instance("S49", str(number), "01T00:00:00", what, payload=payload))
        if number % 2:
            # The same size again, two minutes later: equal neighbours are one record.
            again = instance("S49", f"{number}-again", "01T00:00:00", "resize.confirm", payload=payload)
            yield at(moment + timedelta(minutes=2), again)


@pytest.fixture(scope="module")
def metered(server_url: str, reporting_template: str, metering_template: str) -> Iterator[Metered]:
    """All scenarios, metered and rated."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        send(reporting, *scenarios())
        march, findings = _metered(reporting, metering, "2026-03")
        later = instance("S21", "5", "01T00:00:00", "finish_resize", resource_id="kept", payload=size(**LARGE))
        send(reporting, at(parse_instant("2026-04-10T00:00:00Z"), later))
        march_again, _ = _metered(reporting, metering, "2026-03")
        april, _ = _metered(reporting, metering, "2026-04")
        rejected = reporting.execute("select event_id, reason from reporting.rejected_events").fetchall()
        yield Metered(march, march_again, april, findings, {(row[0], row[1]) for row in rejected})


def _metered(
    reporting: Connection, metering: Connection, period: str
) -> tuple[dict[str, list[Record]], set[tuple[str, str, str]]]:
    run = meter(reporting, metering, period, select=f"{USAGE} int_rated_records")
    records: dict[str, list[Record]] = {}
    for cloud, *columns in metering.execute(_RECORDS, [run.id]):
        records.setdefault(cloud, []).append(Record(*columns))
    findings = metering.execute("select cloud, kind, subject from metering.int_findings").fetchall()
    _abandon(metering, run)
    return records, {(row[0], row[1], row[2]) for row in findings}


def _abandon(metering: Connection, run: Run) -> None:
    runs.fail(metering, run.id, "of no further interest")


_RECORDS = """
    select u.cloud, u.resource_id, u.project_id, u.state, u.lifetime_no,
        to_char(u.from_ts, 'MM-DD HH24:MI:SS'), to_char(u.to_ts, 'MM-DD HH24:MI:SS'),
        (u.usage ->> 'minutes')::numeric, u.usage,
        coalesce(jsonb_object_agg(r.dimension, r.amount) filter (where r.dimension is not null), '{}'),
        coalesce(sum(r.amount_exact), 0)
    from metering.int_usage_records as u
    left join metering.int_rated_records as r
        on r.cloud = u.cloud and r.resource_type = u.resource_type and r.resource_id = u.resource_id
        and r.usage_record_id = u.id
    where u.run_id = %s
    group by u.cloud, u.resource_type, u.resource_id, u.id, u.project_id, u.state, u.lifetime_no, u.from_ts, u.to_ts,
        u.usage
    order by u.cloud, u.resource_id, u.from_ts"""


def minutes(records: Sequence[Record]) -> list[Decimal]:
    """The minutes of records."""
    return [record.minutes for record in records]


def cost(records: Sequence[Record]) -> Decimal:
    """What records cost together."""
    return sum((amount for record in records for amount in record.costs.values()), Decimal(0))


def test_a_delete_stays_a_delete(metered: Metered) -> None:
    """S01: late data within the life counts; a change stamped after the delete is an anomaly and reopens nothing."""
    [record] = metered.march["S01"]
    assert record.minutes == Decimal("0.466667")
    assert record.usage["egress_gb"] == 1
    assert record.costs["egress_gb"] == Decimal("0.09")
    assert ("S01", "anomaly", "S01/4") in metered.findings


def test_a_snapshot_that_ends_does_not_end_its_volume(metered: Metered) -> None:
    """S02: event types map exactly; an unknown one is a dead letter, not a delete."""
    assert minutes(metered.march["S02"]) == [30 * 1440, 29 * 1440]
    assert ("S02/3", "unknown_event_type") in metered.rejected


def test_three_events_of_one_instant_have_one_order(metered: Metered) -> None:
    """S07: whatever the order of arrival, the last in (rank, event id) holds, and zero length vanishes."""
    shown = {
        tuple((record.from_ts, record.usage["flavor"], record.minutes) for record in metered.march[f"S07-{number}"])
        for number in range(6)
    }
    assert shown == {(("03-16 00:00:00", "m1.large", Decimal(16 * 1440)),)}


def test_what_is_in_error_is_metered(metered: Metered) -> None:
    """S13: a floating ip in state ERROR, or in none, costs what it costs; S14: its status is no quantity."""
    error, unknown = metered.march["S13"]
    assert (error.state, unknown.state) == ("error", "unknown")
    assert error.costs == {"count": Decimal("1.80")}
    assert unknown.costs == {"count": Decimal("1.80")}
    assert error.usage == {"minutes": 15 * 1440, "count": 1, "ip_version": 4}


def test_each_resize_ends_the_size_before(metered: Metered) -> None:
    """S19: four contiguous records make up the month."""
    assert minutes(metered.march["S19"]) == [12_960, 2_880, 11_520, 17_280]
    assert [record.usage["size_gb"] for record in metered.march["S19"]] == [100, 200, 300, 400]


def test_a_resize_counts_from_its_instant_and_a_later_one_changes_nothing(metered: Metered) -> None:
    """S21: 20 minutes small and 40 large; a run after a resize of April is identical."""
    small, large, _ = metered.march["S21"]
    assert (small.minutes, small.usage["flavor"]) == (Decimal(20), "m1.small")
    assert (large.minutes, large.usage["flavor"]) == (Decimal(40), "m1.large")
    assert metered.march_again == metered.march


def test_a_transfer_splits_the_month_between_the_owners(metered: Metered) -> None:
    """S22: each owner pays for his minutes, and together they are the month."""
    shown = [(record.project_id, record.minutes, cost([record])) for record in metered.march["S22"]]
    assert shown == [("A", Decimal(20_880), Decimal("3.48")), ("B", Decimal(23_760), Decimal("3.96"))]


def test_a_name_that_lives_twice_has_two_lives(metered: Metered) -> None:
    """S23: the hole between two lives is legal and free."""
    shown = [(record.lifetime_no, record.minutes) for record in metered.march["S23"]]
    assert shown == [(1, Decimal(300)), (2, Decimal(180))]


def test_very_short_lives_are_exact(metered: Metered) -> None:
    """S24: no time gives no record; one second and thirty are exact, minutes only for reading."""
    shown = {record.resource_id: (record.minutes, record.exact) for record in metered.march["S24"]}
    assert shown == {
        "one": (Decimal("0.016667"), Decimal("0.000027777778")),
        "thirty": (Decimal("0.5"), Decimal("0.000833333333")),
    }


def test_a_day_is_a_day(metered: Metered) -> None:
    """S25: 24 hours are 1,440 minutes."""
    assert minutes(metered.march["S25"]) == [1_440]


def test_an_event_at_the_boundary_belongs_to_the_next_month(metered: Metered) -> None:
    """S26: periods are half-open; the months add up."""
    assert [(record.state, record.minutes) for record in metered.march["S26"]] == [("active", Decimal(MARCH_MINUTES))]
    assert [(record.state, record.minutes) for record in metered.april["S26"]] == [("shutoff", Decimal(43_200))]


def test_a_negative_size_is_refused(metered: Metered) -> None:
    """S37: nothing negative gets as far as usage."""
    assert ("S37/1", "invalid_size") in metered.rejected
    assert "S37" not in metered.march


def test_a_month_that_no_version_holds_for_is_not_rated(reporting: Connection, metering: Connection) -> None:
    """S39: the run fails and lists what it cannot rate; it costs neither nothing nor what another month costs."""
    created = at(parse_instant("2022-05-03T00:00:00Z"), volume("S39", "1", "01T00:00:00", "create.end"))
    send(reporting, created | {"payload": size(size_gb=1, type="ssd")})
    with pytest.raises(Refused, match=r"no price version is valid for 2022-05.*unrated: 1 openstack.volume"):
        runs.start(reporting, metering, BillingPeriod.parse("2022-05"), lambda: parse_instant("2022-07-01T00:00:00Z"))
    [run] = runs.runs(metering)
    assert run.status == "failed"
    assert "unrated: 1 openstack.volume" in (run.failure or "")


def test_what_nobody_priced_is_listed_or_blocks(metered: Metered) -> None:
    """S42: the price version lists nics as unpriced, so nothing blocks; and what it does not list would."""
    assert minutes(metered.march["S42"]) == [MARCH_MINUTES]
    assert cost(metered.march["S42"]) == 0
    assert not [finding for finding in metered.findings if finding[1] == "unpriced"]


def test_another_spelling_of_a_type_is_refused(metered: Metered) -> None:
    """S43: SSD is not ssd, and not silently full price either."""
    assert ("S43/1", "invalid_size") in metered.rejected


def test_rounding_each_record_drifts_and_the_drift_is_known(metered: Metered) -> None:
    """S49: flapping every five minutes costs 178.56 by the rule and 148.80 exactly; equal neighbours coalesce."""
    assert len(metered.march["S49"]) == MARCH_MINUTES // 5
    assert cost(metered.march["S49"]) == Decimal("178.56")
    assert round(sum(record.exact for record in metered.march["S49"]), 6) == Decimal("148.8")
