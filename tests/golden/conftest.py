"""The example month, closed once for all golden tests by the real job, on a real server."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tally.services.demo import PERIOD, load_example
from tally.settings import Settings
from tests.golden.closed_month import ClosedMonth, read_closed_month
from tests.golden.handed_month import HandedMonth, handed_month
from tests.integration.closing import copied

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@pytest.fixture(scope="module")
def closed_month(
    server_url: str, reporting_template: str, metering_template: str, tally_home: None  # noqa: ARG001
) -> Iterator[ClosedMonth]:
    """March 2026 of the example, as `tally demo` closes it."""
    with (
        copied(server_url, (reporting_template, metering_template)) as house,
        house.connected() as (reporting, metering),
    ):
        summary = load_example(reporting, Settings.from_environment(), "test", lambda: NOW)
        assert summary.rejected == 0
        house.close()
        yield read_closed_month(metering, PERIOD)


@pytest.fixture(scope="module")
def handed(
    server_url: str, reporting_template: str, metering_template: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HandedMonth]:
    """The month of handed_month.py, with everything that is handed on of it."""
    with handed_month(server_url, reporting_template, metering_template, tmp_path_factory.mktemp("handed")) as month:
        yield month
