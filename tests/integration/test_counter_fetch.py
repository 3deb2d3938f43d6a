"""The fetch of counters as part of a close: golden amounts, broken-off and failed fetches, and what a run keeps."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path

import pytest

from resources.counters import SampledCounters
from tally.domain.counter import CounterSource
from tally.domain.errors import InvalidInput, Refused, Unavailable
from tally.domain.period import BillingPeriod
from tally.domain.samples import Line
from tally.services import finalize, runs
from tally.services.completeness_policy import shipped_policy
from tally.services.correct import CorrectionRequest
from tally.services.counters import Counters
from tally.services.verify import verify
from tally.services.waivers import waive
from tally.store.database import Connection
from tally.store.metering.counters import fingerprint
from tally.store.victoria_metrics import VictoriaMetrics
from tally_dagster.replay import replay
from tests.conftest import REPOSITORY
from tests.integration.closing import LARGE, PERIOD, SMALL, House, instance
from tests.integration.metering_sql import NOW, meter
from tests.integration.month_by_hand import run_month
from tests.integration.sending import send
from tests.integration.victoria import Victoria

pytestmark = pytest.mark.slow

MARCH = BillingPeriod.parse("2026-03")
MAX_GAP = timedelta(hours=2)
SOURCES = (
    CounterSource(
        name="fetched",
        platform="openstack",
        resource_type="instance",
        metric="egress_gb",
        selector="fetched_bytes",
        clouds=("os-prod-eu1",),
        resource_label="server",
        unit=Decimal("1e-9"),
    ),
)
DAYS = 33  # that a fetch of March with two hours before and after it touches
HOUR_MS = 3_600_000
FILE = """
billed:
  platform: openstack
  resource_type: instance
  metric: egress_gb
  selector: billed_bytes
  clouds: [os-prod-eu1]
  labels: {resource_id: server}
  unit: 1/1000000000
  max_gap_seconds: 3456000
"""


@pytest.fixture(scope="module")
def fetched(victoria: Victoria) -> Victoria:
    """Twenty servers, sampled hourly from February to April; each sample is a GB more."""
    for server in range(20):
        samples = [(1_772_236_800_000 + hour * HOUR_MS, hour * 10**9) for hour in range(24 * 36)]
        victoria.write({"__name__": "fetched_bytes", "server": f"i-{server}"}, samples)
    victoria.flush()
    return victoria


class Counting(VictoriaMetrics):
    """Counts the days that it is asked for."""

    exports = 0

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """The samples of the server."""
        self.exports += 1
        return super().export(selector, start, end)


def counters_of(victoria: Victoria) -> Counters:
    return Counters(VictoriaMetrics(victoria.url), SOURCES, MAX_GAP)


def begin(reporting: Connection, metering: Connection, counters: Counters | None, now: datetime = NOW) -> str:
    """Begin a run of March, and return the hash of its inputs."""
    with runs.metering_lock(metering):
        return str(runs.start(reporting, metering, MARCH, lambda: now, counters).inputs_hash)


def content(metering: Connection) -> tuple[int, str]:
    """The fetch of the newest run, and the hash of what it brought."""
    row = metering.execute(
        "select counter_fetch_id, counters_hash from ledger.runs order by started_at desc limit 1"
    ).fetchone()
    assert row is not None
    return row[0], row[1]


def test_a_fetch_that_was_killed_is_gone_on_with(
    fetched: Victoria, reporting_url: str, metering_url: str, reporting: Connection, metering: Connection
) -> None:
    """No day that was stored is fetched again, and what comes of it is what an undisturbed fetch brings."""
    command = [sys.executable, "-m", "tests.integration.fetch_process", reporting_url, metering_url, fetched.url, "10"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=REPOSITORY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"fetching\n"
        process.kill()
    stored = metering.execute("select count(*), sum(samples) from raw.counter_windows").fetchone()
    assert stored == (10, 20 * (2 + 9 * 24))
    server, said = Counting(fetched.url), list[str]()
    begin(reporting, metering, Counters(server, SOURCES, MAX_GAP, said.append))
    assert server.exports == DAYS - 10
    assert said[0] == f"counters fetched: 11 of {DAYS} days, 480 samples"
    assert said[-1] == f"counters fetched: {DAYS} of {DAYS} days, 40 samples"
    first, first_hash = content(metering)
    begin(reporting, metering, Counters(server, SOURCES, MAX_GAP))
    assert content(metering) == (first + 1, first_hash)
    assert server.exports == 2 * DAYS - 10
    assert metering.execute("select count(*) from raw.counter_samples").fetchone() == (0,)


def test_a_fetch_goes_on_only_with_the_same_sources_and_soon(
    fetched: Victoria, reporting: Connection, metering: Connection
) -> None:
    """Else it would hold what other sources selected, or lack what came late."""

    class Ends(Exception):
        """Something that ends the process of a fetch."""

    def ends(line: str) -> None:
        if line.startswith("counters fetched: 3 of"):
            raise Ends

    def days_of_next(max_gap: timedelta, now: datetime) -> int:
        server = Counting(fetched.url)
        with pytest.raises(Ends):
            begin(reporting, metering, Counters(VictoriaMetrics(fetched.url), SOURCES, MAX_GAP, ends))
        begin(reporting, metering, Counters(server, SOURCES, max_gap), now)
        return server.exports

    assert days_of_next(MAX_GAP, NOW) == DAYS - 3
    assert days_of_next(MAX_GAP, NOW + timedelta(hours=25)) == DAYS
    assert days_of_next(MAX_GAP + timedelta(hours=1), NOW) == DAYS


def test_counters_are_inputs_of_a_run(fetched: Victoria, reporting: Connection, metering: Connection) -> None:
    """The hash of what was fetched is part of that of the inputs; it is of what is kept, so that it can be proved."""
    without = begin(reporting, metering, None)
    assert content(metering) == (None, None)
    assert metering.execute("select count(*) from raw.counter_fetches").fetchone() == (0,)
    assert begin(reporting, metering, None) != without  # the load is another one
    begin(reporting, metering, counters_of(fetched))
    fetch_id, content_hash = content(metering)
    assert fingerprint(metering, fetch_id) == content_hash
    metering.execute("update raw.counter_increments set quantity[1] = quantity[1] + 1 where resource_id = 'i-7'")
    assert fingerprint(metering, fetch_id) != content_hash


def test_what_no_run_needs_is_not_kept(fetched: Victoria, reporting: Connection, metering: Connection) -> None:
    """What was fetched for the live run stays; what was fetched for failed ones goes with the next fetch."""

    def fetches() -> list[int]:
        begin(reporting, metering, counters_of(fetched))
        rows = metering.execute("select distinct fetch_id from raw.counter_increments order by fetch_id").fetchall()
        return [row[0] for row in rows]

    assert fetches() == [1]
    assert fetches() == [2]
    metering.execute("update ledger.runs set status = 'completed' where status = 'running'")
    assert fetches() == [2, 3]
    assert fetches() == [2, 4]


def test_a_month_with_counters_is_billed_to_the_cent(victoria: Victoria, house: House, tmp_path: Path) -> None:
    """18.0 GB x 0.09 = 1.62, 22.5 GB x 0.09 = 2.025 and so 2.03, 2.5 GB x 0.09 = 0.225 and so 0.23."""
    victoria.write(
        {"__name__": "billed_bytes", "server": "i-1"},
        {
            "2026-02-28T23:30:00Z": 10 * 10**9,
            "2026-03-05T00:00:00Z": 28 * 10**9,
            "2026-03-15T00:00:00Z": 50_500_000_000,
            "2026-03-24T00:00:00Z": 50_500_000_000,
        },
    )
    victoria.write(
        {"__name__": "billed_bytes", "server": "i-2"},
        {"2026-03-06T00:00:00Z": 2_500_000_000, "2026-04-10T00:00:00Z": 3_000_000_000},
    )
    victoria.flush()
    file = tmp_path / "counters.yaml"
    file.write_text(FILE)
    house.close(sampled_counters=SampledCounters(url=victoria.url, sources=str(file)))
    assert house.query(
        "select resource_id, quantity, amount from ledger.rated_records where dimension = 'egress_gb'"
        " order by resource_id, quantity"
    ) == [
        ("i-1", 18, Decimal("1.62")),
        ("i-1", Decimal("22.5"), Decimal("2.03")),
        ("i-2", Decimal("2.5"), Decimal("0.23")),
    ]
    assert house.query("select kind from ledger.findings where kind like 'counter%'") == []


def test_a_correction_and_a_replay_need_no_server(victoria: Victoria, house: House, tmp_path: Path) -> None:
    """The counters were kept: of a resize that comes late, 2.5 GB move to the record that it begins.

    Only who asks for new counters is refused: what is not there now may have been there, and would be credited.
    """
    victoria.write({"__name__": "kept_bytes", "server": "i-1"}, {"2026-02-28T23:30:00Z": 1, "2026-03-20T00:00:00Z": 1})
    victoria.write(
        {"__name__": "kept_bytes", "server": "i-2"},
        {"2026-03-06T00:00:00Z": 2_500_000_000, "2026-04-10T00:00:00Z": 3_000_000_000},
    )
    victoria.flush()
    file = tmp_path / "counters.yaml"
    file.write_text(FILE.replace("billed", "kept"))
    house.close(sampled_counters=SampledCounters(url=victoria.url, sources=str(file)))
    assert house.launch("finalize_month").success
    house.ingest(instance("late", "03-05T12:00:00", "finish_resize.end", "i-2", size=LARGE, project_id="p-2"))
    house.close(sampled_counters=SampledCounters(url="http://127.0.0.1:1", sources=str(file)))
    assert house.query(
        "select runs.kind, u.sign, u.from_ts::text, u.usage ->> 'egress_gb' from ledger.usage_records as u"
        " inner join ledger.runs on runs.id = u.run_id where u.resource_id = 'i-2' order by 1, 2, 3"
    ) == [
        ("correction", -1, "2026-03-05 00:00:00+00", "-2.5"),
        ("correction", 1, "2026-03-05 00:00:00+00", None),
        ("correction", 1, "2026-03-05 12:00:00+00", "2.5"),
        ("regular", 1, "2026-03-05 00:00:00+00", "2.5"),
    ]
    with house.connected() as (reporting, metering):
        assert verify(metering, "2026-03", partial(replay, house.metering_url)).differences == ()
        down = Counters(VictoriaMetrics("http://127.0.0.1:1"), SOURCES, MAX_GAP, sleep=lambda _: None)
        again = CorrectionRequest(counters=True, reason="the exporter was behind")
        with pytest.raises(Refused, match="2026-03 cannot be corrected by new counters") as refused:
            runs.start(reporting, metering, PERIOD, lambda: NOW, down, again)
        assert "does not answer" in refused.value.reasons[0]
        assert runs.runs(metering)[0].status == "finalized"


def test_a_server_that_is_down_blocks_finalization_until_it_is_waived(house: House, tmp_path: Path) -> None:
    """The month is metered, without a zero for what is not known, and says for which cloud and why."""
    file = tmp_path / "counters.yaml"
    file.write_text(FILE)
    house.close(sampled_counters=SampledCounters(url="http://127.0.0.1:1", sources=str(file)))
    assert house.query("select count(*) from ledger.usage_records where usage ? 'egress_gb'") == [(0,)]
    ((kind, blocking, cloud, subject, detail),) = house.query(
        "select kind, blocking, cloud, subject, detail from ledger.findings where kind like 'counter%'"
    )
    assert (kind, blocking, cloud, subject) == ("counter_source_failed", True, "os-prod-eu1", "billed")
    assert detail.startswith("egress_gb was not fetched: VictoriaMetrics at 127.0.0.1:1 does not answer")
    with house.connected() as (reporting, metering):
        grace = timedelta(hours=72)
        with pytest.raises(Refused, match=r"1 finding.* of kind counter_source_failed, such as os-prod-eu1"):
            finalize.finalize(reporting, metering, PERIOD, grace, lambda: NOW)
        reason = "the exporter was not there yet"
        waive(reporting, metering, PERIOD, "counter_source_failed", reason, shipped_policy(), "test", NOW)
        assert finalize.finalize(reporting, metering, PERIOD, grace, lambda: NOW).status == "finalized"


def test_what_was_waived_is_charged_once_the_server_is_back(
    fetched: Victoria, reporting: Connection, metering: Connection
) -> None:
    """By a correction that is asked for counters: 744 hours with a GB each."""
    send(reporting, *(instance(f"w-{n}", "02-01T00:00:00", "create.end", f"i-{n}", size=SMALL) for n in range(20)))
    down = Counters(VictoriaMetrics("http://127.0.0.1:1"), SOURCES, MAX_GAP, sleep=lambda _: None)
    metering.execute(
        "insert into ledger.waivers (period, kind, reason, actor)"
        " values ('2026-03', 'counter_source_failed', 'the exporter is away', 'test')"
    )
    assert run_month(reporting, metering, counters=down).status == "finalized"
    again = CorrectionRequest(counters=True, reason="the exporter is back")
    corrected = run_month(reporting, metering, counters=counters_of(fetched), request=again)
    charged = metering.execute(
        "select quantity, amount from ledger.rated_records where run_id = %s and dimension = 'egress_gb'",
        [corrected.id],
    ).fetchall()
    assert charged == [(Decimal(744), Decimal("66.96"))] * 20


class Flaky:
    """A server that fails so often before it answers."""

    def __init__(self, victoria: Victoria, failures: Sequence[Exception]) -> None:
        self._server = VictoriaMetrics(victoria.url)
        self.failures = list(failures)

    def export(self, selector: str, start: datetime, end: datetime) -> Iterator[Line]:
        """The samples, once it answers."""
        if self.failures:
            raise self.failures.pop(0)
        return self._server.export(selector, start, end)


@pytest.mark.parametrize(
    ("failures", "pauses", "failed"),
    [
        ([Unavailable("restarting")] * 2, [1, 5], None),
        ([Unavailable("restarting")] * 3, [1, 5], "restarting"),
        ([InvalidInput("no selector")], [], "no selector"),
    ],
)
def test_a_server_that_restarts_fails_no_month(
    fetched: Victoria, reporting: Connection, metering: Connection,
    failures: list[Exception], pauses: list[int], failed: str | None,
) -> None:  # fmt: skip
    """A day is tried three times; what the server refuses is not tried again."""
    slept: list[float] = []
    server = Flaky(fetched, failures)
    begin(reporting, metering, Counters(server, SOURCES, MAX_GAP, sleep=slept.append))
    assert slept == pauses
    assert metering.execute("select failure from raw.counter_sources").fetchall() == [(failed,)]
    assert bool(metering.execute("select from raw.counter_increments").fetchall()) == (failed is None)


def test_a_series_without_its_label_fails_its_source(
    fetched: Victoria, reporting: Connection, metering: Connection
) -> None:
    """Nothing that is selected is passed over in silence."""
    (source,) = SOURCES
    bad = CounterSource(**{name: getattr(source, name) for name in source.__slots__} | {"resource_label": "uuid"})
    begin(reporting, metering, Counters(VictoriaMetrics(fetched.url), (bad,), MAX_GAP))
    ((failure,),) = metering.execute("select failure from raw.counter_sources").fetchall()
    assert "__name__=fetched_bytes, server=i-" in failure
    assert "has no label uuid" in failure


def test_months_of_a_zone_are_cut_where_they_end_there(
    fetched: Victoria, reporting: Connection, metering: Connection
) -> None:
    """A sample at 2026-02-28T23:00Z is the first of March in Berlin; one at 2026-03-31T22:00Z is of April."""
    send(reporting, instance("z-1", "02-01T00:00:00", "create.end", "i-3", size=SMALL))
    meter(reporting, metering, zone="Europe/Berlin", counters=counters_of(fetched))
    berlin = metering.execute("select counters ->> 'egress_gb' from metering.int_usage_records").fetchall()
    meter(reporting, metering, counters=counters_of(fetched))
    utc = metering.execute("select counters ->> 'egress_gb' from metering.int_usage_records").fetchall()
    assert (berlin, utc) == ([("743",)], [("744",)])


def test_a_running_month_is_counted_to_the_instant_of_its_load(
    fetched: Victoria, reporting: Connection, metering: Connection
) -> None:
    """Month to date: the fetch ends there, and so do the holes; the next run fetches the same day anew."""
    send(reporting, instance("y-1", "02-01T00:00:00", "create.end", "i-4", size=SMALL))
    for hour, gained in ((6, 9 * 24 + 6 + 1), (18, 9 * 24 + 18 + 1)):
        now = datetime.fromisoformat(f"2026-03-10T{hour:02}:30:00+00:00")
        meter(reporting, metering, clock=lambda now=now: now, counters=counters_of(fetched))  # type: ignore[misc]
        found = metering.execute("select counters ->> 'egress_gb' from metering.int_usage_records").fetchall()
        assert found == [(str(gained),)]
        assert metering.execute("select from metering.int_findings where kind = 'counter_hole'").fetchall() == []
