"""What the metrics count, under which labels, and that no caller can make more of them."""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tally.api.delivery_metrics import DeliveryMetrics
from tally.api.metrics import OTHER, REASONS, STRANGE_CLOUDS, Metrics
from tally.domain.event import Event
from tally.services.ingest import Outcome, Status
from tests.conftest import REPOSITORY

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
REFERENCE = (REPOSITORY / "docs/reference/metrics.md").read_text(encoding="utf-8")
_ROW = re.compile(r"^\| `(\w+)` \| (\w+) \| ([^|]*) \|", re.MULTILINE)
_RAISED = re.compile(r"(?:InvalidEvent\(|_refused\(\w+, )\"(\w+)\"")

Labels = Mapping[str, str]


def event(cloud: str = "os-prod-eu1", at: datetime = NOON, event_type: str = "volume.create.end") -> Event:
    return Event("e", at, event_type, "openstack", cloud, "volume", "v-1", "p-1", "collector", {})


def outcome(status: Status, some: Event | None, reason: str = "") -> Outcome:
    return Outcome(status, "e", reason, "", some)


def samples(metrics: Metrics, name: str) -> dict[tuple[tuple[str, str], ...], float]:
    """The values of a metric by their labels, read as a scraper reads them."""
    return {
        tuple(sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
        if sample.name == name
    }


def one(metrics: Metrics, name: str) -> float:
    (value,) = samples(metrics, name).values()
    return value


@pytest.fixture
def metrics() -> Metrics:
    return Metrics()


def test_events_are_counted_under_the_names_of_the_requirement(metrics: Metrics) -> None:
    """event_count, events_deduplicated_total and events_rejected_total, by cloud."""
    some = event()
    metrics.ingested([outcome("accepted", some)] * 3 + [outcome("deduplicated", some)] * 2, NOON)
    metrics.ingested([outcome("rejected", some, "clock_skew"), outcome("rejected", None, "invalid_json")], NOON)
    series = {"platform": "openstack", "cloud": "os-prod-eu1", "resource_type": "volume"}
    labels = tuple(sorted({**series, "event_type": "volume.create.end"}.items()))
    assert samples(metrics, "event_count") == {labels: 3}
    assert samples(metrics, "events_deduplicated_total") == {(("cloud", "os-prod-eu1"),): 2}
    assert samples(metrics, "events_rejected_total") == {
        (("cloud", "os-prod-eu1"), ("reason", "clock_skew")): 1,
        (("cloud", ""), ("reason", "invalid_json")): 1,
    }


def test_the_last_event_of_a_cloud_is_the_newest_whatever_comes_later(metrics: Metrics) -> None:
    """A late event does not turn it back."""
    for hours in (1, 3, 2):
        metrics.ingested([outcome("accepted", event(at=NOON + timedelta(hours=hours)))], NOON)
    assert one(metrics, "last_event_timestamp_seconds") == (NOON + timedelta(hours=3)).timestamp()


def test_the_lag_of_a_batch_is_that_of_its_newest_event(metrics: Metrics) -> None:
    """A batch of old and new events is as far behind as its newest; one of the future is not behind."""
    batch = [outcome("accepted", event(at=NOON - timedelta(seconds=lag))) for lag in (3600, 2, 7200)]
    metrics.ingested(batch, NOON)
    assert one(metrics, "ingest_lag_seconds_sum") == 2
    metrics.ingested([outcome("accepted", event(at=NOON + timedelta(seconds=60)))], NOON)
    assert (one(metrics, "ingest_lag_seconds_sum"), one(metrics, "ingest_lag_seconds_count")) == (2, 2)
    assert (one(metrics, "ingest_batch_events_sum"), one(metrics, "ingest_batch_events_count")) == (4, 2)


def test_clouds_that_are_made_up_do_not_make_metrics_without_end(metrics: Metrics) -> None:
    """The first of them are told apart, the others are one; a cloud with accepted events always keeps its name."""
    for number in range(STRANGE_CLOUDS + 50):
        metrics.ingested([outcome("rejected", event(cloud=f"made-up-{number}"), "clock_skew")], NOON)
    metrics.ingested([outcome("accepted", event()), outcome("rejected", event(), "clock_skew")], NOON)
    rejected = samples(metrics, "events_rejected_total")
    assert len(rejected) == STRANGE_CLOUDS + 2
    assert rejected[("cloud", OTHER), ("reason", "clock_skew")] == 50
    assert rejected[("cloud", "os-prod-eu1"), ("reason", "clock_skew")] == 1


def test_a_reason_that_nobody_listed_makes_no_metric(metrics: Metrics) -> None:
    """It is counted as another."""
    metrics.ingested([outcome("rejected", event(), "surprise")], NOON)
    assert list(samples(metrics, "events_rejected_total")) == [(("cloud", "os-prod-eu1"), ("reason", OTHER))]


def test_names_that_need_escaping_come_back_as_they_were(metrics: Metrics) -> None:
    """A cloud may be called anything."""
    cloud = 'a "quoted" \\ name\nof two lines'
    metrics.ingested([outcome("accepted", event(cloud=cloud))], NOON)
    assert list(samples(metrics, "last_event_timestamp_seconds")) == [(("cloud", cloud),)]


def test_every_reason_of_the_reference_of_events_has_a_label() -> None:
    """Reasons are told in one place; `forbidden` is no dead letter, but counted too."""
    page = (REPOSITORY / "docs/reference/events.md").read_text(encoding="utf-8")
    table = page.partition("| Reason |")[2].partition("\n\n")[0]
    rows = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    listed = {reason for row in rows for reason in re.findall(r"`(\w+)`", row)}
    assert listed | {"forbidden"} == REASONS


def test_every_reason_in_the_code_has_a_label() -> None:
    """InvalidEvent is raised with a reason that is listed."""
    raised = {
        reason
        for path in (REPOSITORY / "tally").rglob("*.py")
        for reason in _RAISED.findall(path.read_text(encoding="utf-8"))
    }
    assert raised <= REASONS


def test_the_metrics_of_the_reference_are_those_of_the_code(metrics: Metrics) -> None:
    """Name, type and labels of each."""

    def described() -> Iterator[tuple[str, str, str]]:
        for collector in metrics.collectors:
            name, *_ = (family.name for family in collector.describe())
            kind = type(collector).__name__.lower()
            labels = ", ".join(f"`{label}`" for label in collector._labelnames)
            yield f"{name}_total" if kind == "counter" else name, kind, labels
        for family in DeliveryMetrics.families():
            yield family.name, family.type, ", ".join(f"`{label}`" for label in family._labelnames)

    assert _ROW.findall(REFERENCE) == list(described())
