"""Sampled counters (rule 15): one March and one April, metered with the samples of a real VictoriaMetrics.

Each scenario is an instance, or a cloud, of its own. A test says what is right of it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal

import pytest

from tally.domain.counter import CounterSource
from tally.services.counters import Counters
from tally.store.database import Connection
from tally.store.victoria_metrics import VictoriaMetrics
from tests.conftest import fresh_databases
from tests.integration.closing import LARGE, SMALL, instance
from tests.integration.metering_sql import meter
from tests.integration.sending import send
from tests.integration.victoria import Victoria

CLOUD, HOLEY, BROKEN, BUCKETS = "os-prod-eu1", "os-holey", "os-broken", "os-buckets"
GB = 10**9
MONTHS = timedelta(days=40)


def source(name: str, **fields: object) -> CounterSource:
    """A source of egress of instances, in bytes, with samples under its own name."""
    values: dict[str, object] = {
        "name": name, "platform": "openstack", "resource_type": "instance", "metric": "egress_gb",
        "selector": f"scenario_{name}", "clouds": (CLOUD,), "resource_label": "server", "unit": Decimal("1e-9"),
        "cloud_label": "cloud", "replica_labels": ("replica",), "max_gap": MONTHS,
    }  # fmt: skip
    return CounterSource(**(values | fields))  # type: ignore[arg-type]


SOURCES = (
    source("egress"),
    source("ingress", metric="ingress_gb", unit=Decimal(1)),
    source("holes", clouds=(HOLEY,), max_gap=timedelta(hours=1), states=("active",)),
    source("broken", clouds=(BROKEN, "os-broken-too"), selector="{"),
    source("buckets", clouds=(BUCKETS,), cloud_label=None, max_gap=timedelta(days=2)),
)

# When each instance lives, and what its counter shows (in GB).
EVENTS = (
    instance("a1", "02-10T08:00:00", "create.end", "resized", size=SMALL),
    instance("a2", "03-11T16:00:00", "finish_resize.end", "resized", size=LARGE),
    instance("b1", "03-03T00:00:00", "create.end", "new", size=SMALL),
    instance("c1", "02-01T00:00:00", "create.end", "old", size=SMALL),
    instance("d1", "02-01T00:00:00", "create.end", "two-interfaces", size=SMALL),
    instance("e1", "02-01T00:00:00", "create.end", "replicated", size=SMALL),
    instance("f1", "02-01T00:00:00", "create.end", "deleted", size=SMALL),
    instance("f2", "03-05T00:00:00", "finish_resize.end", "deleted", size=LARGE),
    instance("f3", "03-10T00:00:30", "delete.end", "deleted"),
    instance("g1", "02-01T00:00:00", "create.end", "ends-with-month", size=SMALL),
    instance("g2", "03-31T23:59:30", "delete.end", "ends-with-month"),
    instance("h1", "02-01T00:00:00", "create.end", "goes-on", size=SMALL),
    instance("i1", "02-01T00:00:00", "create.end", "created-again", size=SMALL),
    instance("i2", "03-10T00:00:30", "delete.end", "created-again"),
    instance("i3", "03-10T00:00:40", "create.end", "created-again", size=SMALL, project_id="p-2"),
    instance("j1", "02-01T00:00:00", "create.end", "also-by-events", size=SMALL),
    instance("j2", "03-10T00:00:00", "delete.end", "gone"),
    instance("j0", "03-02T00:00:00", "create.end", "gone", size=SMALL),
    instance("k1", "03-02T00:00:00", "create.end", "passed-by", size=SMALL),
    instance("k2", "03-02T00:00:20", "delete.end", "passed-by"),
    instance("l1", "02-01T00:00:00", "create.end", "sampled-all-along", size=SMALL, cloud=HOLEY),
    instance("m1", "02-01T00:00:00", "create.end", "two-hours-dark", size=SMALL, cloud=HOLEY),
    instance("n1", "02-01T00:00:00", "create.end", "off-by-night", size=SMALL, cloud=HOLEY),
    instance("n2", "03-10T00:00:00", "power_off.end", "off-by-night", cloud=HOLEY),
    instance("n3", "03-10T08:00:00", "power_on.end", "off-by-night", cloud=HOLEY),
    instance("o1", "03-15T12:00:00", "create.end", "short-lived", size=SMALL, cloud=HOLEY),
    instance("o2", "03-15T12:50:00", "delete.end", "short-lived", cloud=HOLEY),
    instance("p1", "02-01T00:00:00", "create.end", "unmeasured", size=SMALL, cloud=BROKEN),
    instance("q1", "02-01T00:00:00", "create.end", "local-days", size=SMALL, cloud=BUCKETS),
)
USAGE = {
    "event_id": "j3", "timestamp": "2026-03-04T00:00:00Z", "event_type": "instance.usage", "platform": "openstack",
    "cloud": CLOUD, "resource_type": "instance", "resource_id": "also-by-events", "project_id": "p-1",
    "payload": {"usage": {"egress_gb": Decimal("0.5")}},
}  # fmt: skip

SAMPLES: tuple[tuple[str, Mapping[str, str], Mapping[str, int]], ...] = (
    ("resized", {}, {"02-28T23:00:00": 1, "03-05T00:00:00": 3, "03-11T16:00:00": 6, "03-20T00:00:00": 10}),
    ("new", {}, {"03-04T00:00:00": 5, "03-05T00:00:00": 6}),
    ("old", {}, {"03-02T00:00:00": 100, "03-03T00:00:00": 101}),
    ("two-interfaces", {"nic": "A"}, {"02-28T00:00:00": 900, "03-02T00:00:00": 100}),
    ("two-interfaces", {"nic": "B"}, {"02-28T00:00:00": 100, "03-02T00:00:00": 1000}),
    ("replicated", {"replica": "0"}, {"02-28T00:00:00": 10, "03-02T00:00:00": 20, "03-03T00:00:00": 30}),
    ("replicated", {"replica": "1"}, {"02-28T00:00:01": 10, "03-02T00:00:01": 21, "03-03T00:00:01": 31,
                                      "03-04T00:00:01": 41, "03-05T00:00:01": 4}),
    ("deleted", {}, {"03-09T23:59:00": 50, "03-10T00:00:00": 55, "03-10T00:01:00": 57, "03-10T00:02:00": 60}),
    ("ends-with-month", {}, {"03-31T23:59:00": 1, "04-01T00:00:15": 3, "04-01T00:01:15": 4}),
    ("goes-on", {}, {"03-31T23:59:00": 1, "04-01T00:00:00": 3}),
    ("created-again", {}, {"03-10T00:00:00": 1, "03-10T00:01:00": 3, "03-10T00:02:00": 7}),
    ("also-by-events", {}, {"02-28T00:00:00": 1, "03-04T00:00:00": 2}),
    ("gone", {}, {"03-09T00:00:00": 4, "03-10T00:00:00": 5, "03-11T00:00:00": 8}),
    ("passed-by", {}, {"03-02T00:01:00": 2}),
    ("nobody", {}, {"03-05T00:00:00": 1, "03-06T00:00:00": 3}),
)  # fmt: skip


@dataclass(frozen=True)
class Metered:
    """What became of the scenarios in one month."""

    counters: Mapping[str, Sequence[Mapping[str, Decimal]]]   # by resource, in the order of time
    findings: Mapping[tuple[str, str, str], str]   # (kind, cloud, subject): detail


@dataclass(frozen=True)
class Played:
    march: Metered
    april: Metered


@pytest.fixture(scope="module")
def played(victoria: Victoria, server_url: str, reporting_template: str, metering_template: str) -> Iterator[Played]:
    """All scenarios, metered for March and for April."""
    with fresh_databases(server_url, reporting_template, metering_template) as (reporting, metering):
        outcomes = send(reporting, *EVENTS, USAGE)
        assert {outcome.status for outcome in outcomes} == {"accepted"}
        sample(victoria)
        counters = Counters(VictoriaMetrics(victoria.url), SOURCES, MONTHS, sleep=lambda _: None)
        meter(reporting, metering, "2026-03", counters=counters)
        march = read(metering)
        meter(reporting, metering, "2026-04", counters=counters)
        yield Played(march, read(metering))


def sample(victoria: Victoria) -> None:
    """Write what the counters of all scenarios showed."""
    for server, labels, values in SAMPLES:
        named = {"__name__": "scenario_egress", "cloud": CLOUD, "server": server} | labels
        victoria.write(named, {f"2026-{when}Z": value * GB for when, value in values.items()})
    named = {"__name__": "scenario_ingress", "cloud": CLOUD, "server": "old"}
    victoria.write(named, {"2026-02-28T00:00:00Z": 0.1, "2026-03-03T00:00:00Z": 0.3})
    start_ms, minute = 1772150400000, 60_000   # 2026-02-27T00:00:00Z
    for server, dark in (("sampled-all-along", range(0)), ("two-hours-dark", range(20_000, 20_121)),
                         ("off-by-night", range(15_840, 16_320))):  # fmt: skip
        steady = [(start_ms + n * minute, n * GB) for n in range(0, 50_000, 5) if n not in dark]
        victoria.write({"__name__": "scenario_holes", "cloud": HOLEY, "server": server}, steady)
    days = {f"2026-{day}T22:00:00Z": n * 24 * GB for n, day in enumerate(("03-29", "03-30", "03-31", "04-01", "04-02"))}
    victoria.write({"__name__": "scenario_buckets", "server": "local-days"}, days)
    victoria.flush()


def read(metering: Connection) -> Metered:
    """The counters and findings of what was metered last."""
    rows = metering.execute(
        "select resource_id, counters from metering.int_usage_records order by resource_id, from_ts"
    ).fetchall()
    counters: dict[str, list[Mapping[str, Decimal]]] = {}
    for resource_id, values in rows:
        counters.setdefault(resource_id, []).append({metric: Decimal(value) for metric, value in values.items()})
    findings = {
        (kind, cloud, subject): detail
        for kind, cloud, subject, detail in metering.execute(
            "select kind, cloud, subject, detail from metering.int_findings where kind like 'counter%'"
        )
    }
    return Metered(counters, findings)


def egress(*values: int | str | None) -> list[dict[str, Decimal]]:
    """Records with so much egress each; None is a record without."""
    return [{} if value is None else {"egress_gb": Decimal(value)} for value in values]


def test_an_increment_belongs_to_the_interval_of_its_later_sample(played: Played) -> None:
    """The baseline lies before the period; at the instant of a split, to the interval that begins there."""
    assert played.march.counters["resized"] == egress(2, 7)


def test_a_counter_of_a_new_resource_starts_from_zero(played: Played) -> None:
    """Created within the period and without an earlier sample: all that its first sample shows was used by it."""
    assert played.march.counters["new"] == egress(6)


def test_the_first_sample_of_an_older_resource_is_its_baseline(played: Played) -> None:
    """Whatever it counted before was not used in this month."""
    assert played.march.counters["old"][0]["egress_gb"] == 1


def test_values_are_exact(played: Played) -> None:
    """0.3 - 0.1 is 0.2: no binary float is computed with."""
    assert played.march.counters["old"][0]["ingress_gb"] == Decimal("0.2")


def test_resets_are_found_in_each_series_before_series_are_summed(played: Played) -> None:
    """S34: A falls from 900 to 100, B rises from 100 to 1000: 100 + 900, not 100."""
    assert played.march.counters["two-interfaces"] == egress(1000)


def test_replicas_are_one_series(played: Played) -> None:
    """Counted once; when one falls silent the other goes on, with its resets."""
    assert played.march.counters["replicated"] == egress(35)


def test_what_spans_a_deletion_belongs_to_the_last_interval(played: Played) -> None:
    """And what grows afterwards belongs to nobody: it is a finding."""
    assert played.march.counters["deleted"] == egress(None, 7)
    assert played.march.findings["counter_unplaced", CLOUD, "deleted egress_gb"] == (
        "3 from 2026-03-10 00:02:00+00 to 2026-03-10 00:02:00+00: no life of the resource takes it"
    )


def test_what_spans_a_deletion_at_the_end_of_the_month_belongs_to_that_month(played: Played) -> None:
    """Though its sample is of the next one, which neither counts nor reports it."""
    assert played.march.counters["ends-with-month"] == egress(2)
    assert "ends-with-month" not in played.april.counters
    assert played.april.findings["counter_unplaced", CLOUD, "ends-with-month egress_gb"].startswith("1 from")


def test_a_sample_at_the_first_instant_of_a_month_belongs_to_it(played: Played) -> None:
    """Periods are half-open."""
    assert played.march.counters["goes-on"] == egress(None)
    assert played.april.counters["goes-on"] == egress(2)


def test_what_spans_a_deletion_and_a_new_creation_belongs_to_the_life_that_ended(played: Played) -> None:
    """The next life takes what begins within it."""
    assert played.march.counters["created-again"] == egress(2, 4)


def test_usage_by_events_and_by_samples_adds_up(played: Played) -> None:
    """Both are increments of one counter."""
    assert played.march.counters["also-by-events"] == egress("1.5")


def test_a_sample_at_the_deletion_belongs_to_the_last_interval(played: Played) -> None:
    """Usage comes before the delete of its instant; a gain that begins at the delete comes after it."""
    assert played.march.counters["gone"] == egress(5)
    assert played.march.findings["counter_unplaced", CLOUD, "gone egress_gb"].startswith("3 from")


def test_a_resource_that_lived_between_two_samples_is_counted(played: Played) -> None:
    """Its first sample comes after its deletion, and spans it."""
    assert played.march.counters["passed-by"] == egress(2)


def test_a_counter_of_an_unknown_resource_is_a_finding(played: Played) -> None:
    """Somebody used something."""
    assert ("counter_unplaced", CLOUD, "nobody egress_gb") in played.march.findings


def test_a_local_day_is_attributed_by_its_end(played: Played) -> None:
    """S29: the day from 03-31T22:00Z to 04-01T22:00Z ends in April; its window is never relabelled."""
    assert played.march.counters["local-days"] == egress(48)
    assert played.april.counters["local-days"] == egress(48)


def test_a_hole_blocks_its_cloud(played: Played) -> None:
    """Two hours without a sample where an hour is allowed: one finding per cloud and source, with an example."""
    holes = {key: found for key, found in played.march.findings.items() if key[:2] == ("counter_hole", HOLEY)}
    assert holes.keys() == {("counter_hole", HOLEY, "holes")}
    assert holes["counter_hole", HOLEY, "holes"] == (
        "no sample for longer than 01:00:00 of 1 resource(s), such as two-hours-dark"
        " from 2026-03-12 21:15:00+00 to 2026-03-12 23:25:00+00"
    )


def test_a_source_that_fails_blocks_its_clouds_and_no_other(played: Played) -> None:
    """S58: its clouds are named with the reason, and everything else is metered."""
    failed = {key[1]: found for key, found in played.march.findings.items() if key[0] == "counter_source_failed"}
    assert failed.keys() == {BROKEN, "os-broken-too"}
    assert "egress_gb was not fetched: VictoriaMetrics at 127.0.0.1" in failed[BROKEN]
    assert "answers 400" in failed[BROKEN]
    assert played.march.counters["unmeasured"] == [{}]
