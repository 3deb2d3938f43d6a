"""The databases of an installation: running, created, migrated, and loaded with what Tally ships.

Each command that needs them enters ``running``. What is done with the databases does not belong here.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import psycopg
from psycopg import sql

from tally.domain.errors import Unavailable
from tally.services.price_files import load_folder
from tally.services.pricing import load_price_versions
from tally.services.registry import load_builtin_types
from tally.settings import Settings
from tally.store.database import connected
from tally.store.embedded import EmbeddedServer, embedded_server
from tally.store.migrate import migrate

REPORTING, METERING, DAGSTER = "tally_reporting", "tally_metering", "tally_dagster"


def _lasting() -> None:
    """Servers that are named by URL look after themselves."""


class Databases(NamedTuple):
    """URLs of the databases. They may hold passwords: never print them.

    ``check`` is for who serves for long: it raises Unavailable once an embedded server has ended by itself.
    """

    reporting_url: str
    metering_url: str
    dagster_url: str
    check: Callable[[], None] = _lasting


class Prepared(NamedTuple):
    """What a preparation changed, by name."""

    reporting_migrations: list[str]
    metering_migrations: list[str]
    resource_types: list[str]
    price_versions: list[str]


@contextmanager
def running(settings: Settings) -> Iterator[Databases]:
    """Databases for a block, up to date: the embedded server is started if one is needed and none runs.

    Raises:
        Unavailable: if a server does not start or a database does not answer.
        Refused: if a migration fails, or an applied one or a loaded price version has changed.
    """
    with serving(settings) as databases:
        prepare(databases, settings.prices)
        yield databases


@contextmanager
def serving(settings: Settings) -> Iterator[Databases]:
    """Databases for a block, created but as they are."""
    urls = settings.reporting_url, settings.metering_url, settings.dagster_url
    check = _lasting
    with ExitStack() as stack:
        if not all(urls):
            server = stack.enter_context(embedded_server(settings.home))
            missing = [name for name, url in zip((REPORTING, METERING, DAGSTER), urls, strict=True) if not url]
            _create(server, missing)
            check = server.check
            urls = (
                urls[0] or server.url(REPORTING),
                urls[1] or server.url(METERING),
                urls[2] or server.url(DAGSTER),
            )
        yield Databases(*urls, check)


def prepare(databases: Databases, prices: Path | None = None) -> Prepared:
    """Migrate both databases and load the resource types and price versions that Tally ships; again is nothing.

    ``prices`` is a folder of price versions that the installation has beside them.
    """
    with connected(databases.reporting_url) as reporting, connected(databases.metering_url) as metering:
        try:
            return Prepared(
                migrate(reporting, "reporting"),
                migrate(metering, "metering"),
                load_builtin_types(reporting),
                load_price_versions(metering) + (load_folder(reporting, metering, prices) if prices else []),
            )
        except psycopg.Error as error:
            raise Unavailable(f"the databases cannot be brought up to date: {str(error).splitlines()[0]}") from error


def _create(server: EmbeddedServer, names: Sequence[str]) -> None:
    with connected(server.url("postgres")) as connection:
        connection.execute("select pg_advisory_lock(hashtext('tally create database'))")
        existing = {row[0] for row in connection.execute("select datname from pg_database").fetchall()}
        for name in names:
            if name not in existing:
                connection.execute(sql.SQL("create database {}").format(sql.Identifier(name)))
