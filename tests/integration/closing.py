"""A small month, and the way to close it through the real job: the words of several tests."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dagster import DagsterEventType, ExecuteInProcessResult

from resources.clock import Clock
from resources.databases import Databases
from tally.domain.period import BillingPeriod
from tally.store.database import Connection, connected
from tests.conftest import close_to_sessions, fresh_database
from tests.integration.sending import send

PERIOD = BillingPeriod.parse("2026-03")
AFTER_GRACE = "2026-05-01T00:00:00Z"


def instance(event_id: str, when: str, event_type: str, resource_id: str = "i-1", **fields: Any) -> dict[str, Any]:
    """An event of an instance; ``when`` is a month, a day and a time such as 03-05T10:00:00."""
    payload = {"size": fields.pop("size")} if "size" in fields else {}
    return {
        "event_id": event_id,
        "timestamp": f"2026-{when}Z",
        "event_type": f"compute.instance.{event_type}",
        "platform": "openstack",
        "cloud": "os-prod-eu1",
        "resource_type": "instance",
        "resource_id": resource_id,
        "project_id": "p-1",
        "payload": payload,
    } | fields


SMALL = {"vcpus": 2, "ram_gb": 4, "disk_gb": 40, "flavor": "m1.small"}
LARGE = {"vcpus": 4, "ram_gb": 8, "disk_gb": 80, "flavor": "m1.large"}
SMALL_MONTH = (
    instance("e-1", "02-10T08:00:00", "create.end", size=SMALL),
    instance("e-2", "03-11T16:00:00.000001", "finish_resize.end", size=LARGE),
    instance("e-3", "03-20T10:30:00", "power_off.end"),
    instance("e-4", "03-25T00:00:00", "delete.end"),
    instance("e-5", "03-05T00:00:00", "create.end", "i-2", size=SMALL, project_id="p-2"),
)


@dataclass(frozen=True)
class House:
    """One installation: two databases, and the month that is closed."""

    reporting_url: str
    metering_url: str
    period: BillingPeriod = PERIOD

    def environment(self, home: Path, dagster_url: str) -> dict[str, str]:
        """What a process is told of the installation."""
        return {
            "TALLY_HOME": str(home),
            "TALLY_REPORTING_URL": self.reporting_url,
            "TALLY_METERING_URL": self.metering_url,
            "TALLY_DAGSTER_URL": dagster_url,
        }

    def launch(
        self, job: str = "close_month", now: str = AFTER_GRACE, tags: dict[str, str] | None = None, **resources: Any
    ) -> ExecuteInProcessResult:
        """Run a job for the month in this process, with some resources instead of the usual ones."""
        from tally_dagster.definitions import build_definitions

        databases = Databases(reporting_url=self.reporting_url, metering_url=self.metering_url)
        definitions = build_definitions({"databases": databases, "clock": Clock(instant=now)} | resources)
        return definitions.resolve_job_def(job).execute_in_process(
            partition_key=str(self.period), tags=tags, raise_on_error=False
        )

    def close(self, now: str = AFTER_GRACE, **resources: Any) -> ExecuteInProcessResult:
        """Close the month; it must succeed."""
        result = self.launch(now=now, **resources)
        assert result.success
        return result

    def ingest(self, *events: dict[str, Any]) -> None:
        """Send events; all must be accepted."""
        with connected(self.reporting_url) as reporting:
            assert {outcome.status for outcome in send(reporting, *events)} == {"accepted"}

    @contextmanager
    def connected(self) -> Iterator[tuple[Connection, Connection]]:
        """Connections to its reporting and its metering database."""
        with connected(self.reporting_url) as reporting, connected(self.metering_url) as metering:
            yield reporting, metering

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Rows of the metering database."""
        with connected(self.metering_url) as metering:
            return metering.execute(sql.encode()).fetchall()


@contextmanager
def template_of(
    server_url: str, reporting_template: str, metering_template: str, prepare: Callable[[House], None]
) -> Iterator[tuple[str, str]]:
    """Names of a reporting and a metering database as ``prepare`` leaves them, to be copied."""
    with copied(server_url, (reporting_template, metering_template)) as house:
        prepare(house)
        urls = house.reporting_url, house.metering_url
        for url in urls:
            close_to_sessions(server_url, url)
        reporting, metering = (urlsplit(url).path.removeprefix("/") for url in urls)
        yield reporting, metering


@contextmanager
def copied(server_url: str, templates: tuple[str, str], period: BillingPeriod = PERIOD) -> Iterator[House]:
    """An installation of its own, copied from templates."""
    reporting, metering = templates
    with fresh_database(server_url, reporting) as reporting_url, fresh_database(server_url, metering) as metering_url:
        yield House(reporting_url, metering_url, period)


def failed_steps(result: ExecuteInProcessResult) -> list[str]:
    """The steps that failed."""
    return [str(event.step_key) for event in result.all_events if event.is_step_failure]


def violated(result: ExecuteInProcessResult) -> dict[str, str]:
    """What each check that failed says."""
    evaluations = [
        event.asset_check_evaluation_data
        for event in result.all_events
        if event.event_type == DagsterEventType.ASSET_CHECK_EVALUATION
    ]
    return {data.check_name: str(data.description) for data in evaluations if not data.passed}


def statuses(metering: Connection) -> Sequence[str]:
    """The status of all runs of the small month, the oldest first."""
    rows = metering.execute("select status from ledger.runs where period = %s order by started_at", [str(PERIOD)])
    return [row[0] for row in rows]
