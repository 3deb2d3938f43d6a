"""One small month, closed once by the real job: the databases of each test are clones of what it left."""

from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest

from tally.store.database import connected
from tests.conftest import fresh_database
from tests.integration.api_server import Client, live_api
from tests.integration.closing import SMALL_MONTH, House, copied, template_of
from tests.integration.victoria import Victoria, running_victoria


@pytest.fixture(scope="session")
def closed_templates(
    server_url: str,
    reporting_template: str,
    metering_template: str,
    tally_home: None,  # noqa: ARG001
) -> Iterator[tuple[str, str]]:
    """Names of a reporting and a metering database in which the small month is closed."""

    def close(house: House) -> None:
        house.ingest(*SMALL_MONTH)
        house.close()

    with template_of(server_url, reporting_template, metering_template, close) as names:
        yield names


@pytest.fixture
def house(server_url: str, closed_templates: tuple[str, str]) -> Iterator[House]:
    """An installation of its own in which the small month is closed, but not finalized."""
    with copied(server_url, closed_templates) as house:
        yield house


@pytest.fixture(scope="session")
def idle_metering_url(server_url: str, metering_template: str) -> Iterator[str]:
    """URL of a metering database that nobody can write into, for all tests in which nothing is metered."""
    with fresh_database(server_url, metering_template) as url:
        with connected(server_url) as server:
            name = urlsplit(url).path.removeprefix("/")
            server.execute(f'alter database "{name}" set default_transaction_read_only = on'.encode())
        yield url


@pytest.fixture
def api(reporting_url: str, idle_metering_url: str) -> Iterator[Client]:
    """A live API over a fresh reporting database, without authentication; its clock stands at api_server.NOW."""
    with live_api(reporting_url, idle_metering_url) as client:
        yield client


@pytest.fixture(scope="module")
def victoria() -> Iterator[Victoria]:
    """A VictoriaMetrics for the tests of a module, each with metrics of its own name.

    Not for all modules: one whose fixtures run again, as in another order of tests, would write all samples twice.
    """
    with running_victoria() as server:
        yield server
