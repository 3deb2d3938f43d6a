"""The databases of the installation, and the one connection that a metering run holds from its start to its end."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import psycopg
from dagster import ConfigurableResource, DagsterLogManager, InitResourceContext, ResourceDependency
from pydantic import PrivateAttr

from tally.services.installation import METERING, REPORTING
from tally.services.runs import metering_lock
from tally.settings import Settings
from tally.store.database import Connection, connected
from tally.store.embedded import EmbeddedServer
from tally.store.migrate import refuse_other


class Databases(ConfigurableResource):  # type: ignore[type-arg]
    """URLs of the reporting and the metering database.

    What is left empty comes from the environment, and what is empty there too is the embedded server of TALLY_HOME,
    which must be running. So the URLs of an installation never become configuration that Dagster shows or stores.
    """

    reporting_url: str = ""
    metering_url: str = ""

    def reporting(self) -> str:
        """URL of the reporting database."""
        settings = Settings.from_environment()
        return self.reporting_url or settings.reporting_url or EmbeddedServer(settings.home).url(REPORTING)

    def metering(self) -> str:
        """URL of the metering database."""
        settings = Settings.from_environment()
        return self.metering_url or settings.metering_url or EmbeddedServer(settings.home).url(METERING)


class Metering(ConfigurableResource):  # type: ignore[type-arg]
    """A connection to the metering database that holds the metering lock for the whole Dagster run.

    Dagster opens a resource once per process: with the in-process executor, once per run. If the process is killed,
    the connection and with it the lock are gone. If the connection is lost, the next use opens another and waits for
    the lock again; a run that began meanwhile has then abandoned this one.
    """

    databases: ResourceDependency[Databases]
    _connection: Connection | None = PrivateAttr(default=None)
    _held: ExitStack | None = PrivateAttr(default=None)
    _log: DagsterLogManager | None = PrivateAttr(default=None)

    @contextmanager
    def yield_for_execution(self, context: InitResourceContext) -> Iterator["Metering"]:
        """Hold the lock while the run lasts, whether it succeeds or fails."""
        self._log = context.log
        self._held = ExitStack()
        try:
            self._open(self._held)
            yield self
        finally:
            self._let_go()
            self._held = None

    @property
    def connection(self) -> Connection:
        """The connection that holds the lock."""
        if self._held is None or self._connection is None:
            raise RuntimeError("the metering connection exists only while a run executes")
        if self._connection.closed:
            self._let_go()
            self._open(self._held)
        return self._connection

    @contextmanager
    def reporting(self) -> Iterator[Connection]:
        """A connection to the reporting database for a block."""
        with connected(self.databases.reporting()) as connection:
            refuse_other(connection, "reporting")
            yield connection

    def _open(self, held: ExitStack) -> None:
        connection = held.enter_context(connected(self.databases.metering()))
        refuse_other(connection, "metering")  # a daemon may have been left running while Tally was upgraded
        held.enter_context(metering_lock(connection, say=self._tell))
        self._connection = connection

    def _tell(self, line: str) -> None:
        if self._log is not None:
            self._log.info(line)

    def _let_go(self) -> None:
        # A lost connection has let go of its lock already, and says so by an error.
        with suppress(psycopg.OperationalError):
            if self._held is not None:
                self._held.close()
