"""Databases that are made for one benchmark and dropped afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager
from uuid import uuid4

import psycopg

from tally.services.pricing import load_price_versions
from tally.services.registry import load_builtin_types
from tally.store.database import connected
from tally.store.migrate import migrate


@contextmanager
def database(server_url: str, kind: str, *, shipped: bool = True) -> Iterator[str]:
    """Make a migrated 'reporting' or 'metering' database with what Tally ships, and yield its URL.

    With ``shipped=False`` a metering database has no prices.
    """
    name = f"tally_bench_{uuid4().hex[:12]}"
    url = psycopg.conninfo.make_conninfo(server_url, dbname=name)
    with connected(server_url) as server:
        server.execute(f'create database "{name}" template template0'.encode())
        try:
            with connected(url) as connection:
                migrate(connection, kind)
                if kind == "reporting":
                    load_builtin_types(connection)
                elif shipped:
                    load_price_versions(connection)
            yield url
        finally:
            server.execute(f'drop database if exists "{name}" with (force)'.encode())
