"""Fixtures of all tests: a real PostgreSQL, and databases of their own that are cloned from migrated templates.

The server is the one of TALLY_TEST_SERVER_URL (a superuser's URL), or an embedded one in a temporary directory, one for
each pytest worker. Nothing is left behind: databases are dropped, the server is stopped, its directory removed.
"""

import inspect
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit
from uuid import uuid4

import pytest
import xdist.remote
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings

from tally.services.pricing import load_price_versions
from tally.services.registry import load_builtin_types
from tally.store.database import Connection, connect, connected
from tally.store.embedded import embedded_server
from tally.store.migrate import migrate

REPOSITORY = Path(__file__).parents[1]
ROOMY_BYTES = 8 << 30

# A machine that is busy with something else is no fault of what is tested.
hypothesis_settings.register_profile("tally", deadline=None, suppress_health_check=[HealthCheck.too_slow])
hypothesis_settings.load_profile("tally")


# dbt asks inspect for the module of every frame on the stack, once for each of its flags. The frames by which xdist
# starts belong to none that inspect knows, and it would search all modules each time: minutes over all tests.
inspect.modulesbyfile.update({"<string>": "__main__", xdist.remote.__file__: "xdist.remote"})


# What is started in the background ignores Ctrl-C, and hands that down to the programs that tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that hold slow tests come first, so that no worker is left alone with one in the end."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: item.path not in slow)


@pytest.fixture(scope="session")
def repository() -> Path:
    """The root of the repository."""
    return REPOSITORY


@pytest.fixture(scope="session")
def shared() -> Path:
    """The collection of real samples beside the repository, or the directory that TALLY_SHARED names."""
    folder = Path(os.environ.get("TALLY_SHARED") or REPOSITORY.parent / "shared")
    if not folder.is_dir():
        pytest.skip(f"the collection of real samples is not at {folder}; name it with TALLY_SHARED")
    return folder


def memory() -> Path | None:
    """A file system in memory that has room for a server's data; cloning a database there costs a third."""
    folder, meminfo = Path("/dev/shm"), Path("/proc/meminfo")
    if not (folder.is_dir() and meminfo.exists()):
        return None
    status = os.statvfs(folder)
    available = int(meminfo.read_text(encoding="utf-8").partition("MemAvailable:")[2].split()[0]) * 1024
    return folder if min(status.f_bavail * status.f_frsize, available) >= ROOMY_BYTES else None


@contextmanager
def temporary_home() -> Iterator[Path]:
    """A TALLY_HOME that the account of an embedded server can enter, also when the tests run as root.

    Its server has been stopped in the end. Who kills one starts it again: the shared memory of a dead server lies
    elsewhere, and only the next server of the same data removes it.
    """
    folder = Path(tempfile.mkdtemp(prefix="tally-test-", dir=memory()))
    folder.chmod(0o711)
    try:
        yield folder
        assert not (folder / "postgres/data/postmaster.pid").exists()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def home() -> Iterator[Path]:
    """An empty TALLY_HOME for one test."""
    with temporary_home() as folder:
        yield folder


@pytest.fixture(scope="session")
def tally_home() -> Iterator[None]:
    """A TALLY_HOME for dbt's files, the same for all tests: the project is parsed once."""
    with temporary_home() as home, pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLY_HOME", str(home))
        yield


@pytest.fixture(scope="session")
def server_url() -> Iterator[str]:
    """URL of a superuser on the server of this worker."""
    if url := os.environ.get("TALLY_TEST_SERVER_URL"):
        yield url
        return
    with temporary_home() as folder, embedded_server(folder, durable=False) as server:
        yield server.url("postgres")


def on_server(url: str, database: str) -> str:
    """Name another database on the server of ``url``."""
    return urlunsplit(urlsplit(url)._replace(path=f"/{database}"))


@contextmanager
def fresh_database(server_url: str, template: str = "template0", options: str = "") -> Iterator[str]:
    """URL of a database that is cloned from ``template`` and dropped afterwards."""
    name = f"tally_test_{os.getpid()}_{uuid4().hex[:12]}"
    with connected(server_url) as server:
        # Files are copied at once, but a server that is durable makes a checkpoint before and after.
        strategy = "wal_log" if server.execute("show fsync").fetchone() == ("on",) else "file_copy"
        server.execute(f'create database "{name}" template "{template}" strategy {strategy} {options}'.encode())
        try:
            yield on_server(server_url, name)
        finally:
            server.execute(f'drop database if exists "{name}" with (force)'.encode())


@contextmanager
def fresh_databases(
    server_url: str, reporting_template: str, metering_template: str
) -> Iterator[tuple[Connection, Connection]]:
    """Connections to a reporting and a metering database of their own."""
    with (
        fresh_database(server_url, reporting_template) as reporting_url,
        fresh_database(server_url, metering_template) as metering_url,
        connected(reporting_url) as reporting,
        connected(metering_url) as metering,
    ):
        yield reporting, metering


@contextmanager
def migrated_template(server_url: str, kind: str) -> Iterator[str]:
    """Name of a database that is migrated and holds what an installation loads at its start."""
    with fresh_database(server_url) as url:
        with connected(url) as connection:
            migrate(connection, kind)
            load_builtin(connection, kind)
        close_to_sessions(server_url, url)
        yield urlsplit(url).path.removeprefix("/")


def load_builtin(connection: Connection, kind: str) -> None:
    """Load the resource types or the price versions that Tally ships."""
    if kind == "reporting":
        load_builtin_types(connection)
    else:
        load_price_versions(connection)


def close_to_sessions(server_url: str, url: str) -> None:
    """Let nobody into a database that is to be cloned: TimescaleDB's scheduler would come back to it."""
    name = urlsplit(url).path.removeprefix("/")
    with connected(server_url) as server:
        server.execute(f'alter database "{name}" with allow_connections false'.encode())
        server.execute("select pg_terminate_backend(pid, 5000) from pg_stat_activity where datname = %s", [name])


@pytest.fixture(scope="session")
def reporting_template(server_url: str) -> Iterator[str]:
    """Name of the template of reporting databases."""
    with migrated_template(server_url, "reporting") as name:
        yield name


@pytest.fixture(scope="session")
def metering_template(server_url: str) -> Iterator[str]:
    """Name of the template of metering databases."""
    with migrated_template(server_url, "metering") as name:
        yield name


@pytest.fixture
def reporting_url(server_url: str, reporting_template: str) -> Iterator[str]:
    """URL of a fresh reporting database with the builtin resource types."""
    with fresh_database(server_url, reporting_template) as url:
        yield url


@pytest.fixture
def metering_url(server_url: str, metering_template: str) -> Iterator[str]:
    """URL of a fresh metering database with the shipped price versions."""
    with fresh_database(server_url, metering_template) as url:
        yield url


@pytest.fixture
def dagster_url(server_url: str) -> Iterator[str]:
    """URL of a fresh, empty database for Dagster."""
    with fresh_database(server_url) as url:
        yield url


@pytest.fixture
def reporting(reporting_url: str) -> Iterator[Connection]:
    """Connection in autocommit to the reporting database of this test."""
    connection = connect(reporting_url)
    yield connection
    connection.close()


@pytest.fixture
def metering(metering_url: str) -> Iterator[Connection]:
    """Connection in autocommit to the metering database of this test."""
    connection = connect(metering_url)
    yield connection
    connection.close()
