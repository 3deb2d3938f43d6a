"""The example month, closed once for all golden tests: the real job, as a process of its own, on a real server."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tally.services.demo import PERIOD, load_example
from tally.services.installation import Databases
from tally.services.orchestrator import run_job
from tally.settings import Settings
from tally.store.database import connected
from tests.conftest import fresh_database, temporary_home
from tests.golden.closed_month import ClosedMonth, read_closed_month
from tests.golden.handed_month import HandedMonth, handed_month

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def closed_month(server_url: str, reporting_template: str, metering_template: str) -> Iterator[ClosedMonth]:
    """March 2026 of the example, as `tally demo` closes it."""
    progress: list[str] = []
    with (
        temporary_home() as home,
        fresh_database(server_url, reporting_template) as reporting_url,
        fresh_database(server_url, metering_template) as metering_url,
        fresh_database(server_url) as dagster_url,
    ):
        settings = Settings.from_environment({"TALLY_HOME": str(home)})
        databases = Databases(reporting_url, metering_url, dagster_url)
        with connected(reporting_url) as reporting:
            summary = load_example(reporting, settings, "test", lambda: NOW)
        assert summary.rejected == 0
        run_job(settings, databases, "close_month", PERIOD, actor="test", say=progress.append)
        with connected(metering_url) as metering:
            yield read_closed_month(metering, PERIOD)


@pytest.fixture(scope="module")
def handed(
    server_url: str, reporting_template: str, metering_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HandedMonth]:
    """The month of handed_month.py, with everything that is handed on of it."""
    with handed_month(server_url, reporting_template, metering_template, tmp_path_factory.mktemp("handed")) as month:
        yield month
