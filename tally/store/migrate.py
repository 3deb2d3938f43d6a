"""Numbered SQL migrations: under an advisory lock, each in its own transaction, recorded with a checksum."""

import hashlib
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

from tally.domain.errors import Refused
from tally.store.database import Connection

_LOCK = 0x7A11_0001  # one migration at a time per database


class Migration(NamedTuple):
    """One numbered SQL file."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Sha256 of the text: an applied migration is never edited."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def migrations(database: str) -> Iterator[Migration]:
    """List the migrations of 'reporting' or 'metering' in order."""
    folder = files("tally.store") / database / "migrations"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield Migration(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))


def migrate(connection: Connection, database: str) -> list[str]:
    """Bring a database up to date and return the names of the migrations that were applied now.

    Raises:
        Refused: if an applied migration no longer has the text that was applied.
    """
    connection.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        return _apply(connection, database)
    finally:
        connection.execute("select pg_advisory_unlock(%s)", [_LOCK])


def _apply(connection: Connection, database: str) -> list[str]:
    connection.execute(
        "create table if not exists public.tally_migrations ("
        "name text primary key, checksum text not null, applied_at timestamptz not null default now())"
    )
    applied: dict[str, str] = dict(connection.execute("select name, checksum from public.tally_migrations").fetchall())
    names = []
    for migration in migrations(database):
        if migration.name not in applied:
            with connection.transaction():
                connection.execute(migration.sql.encode())
                connection.execute(
                    "insert into public.tally_migrations (name, checksum) values (%s, %s)",
                    [migration.name, migration.checksum],
                )
            names.append(migration.name)
        elif applied[migration.name] != migration.checksum:
            raise Refused(
                f"migration {migration.name} of {database}",
                ["it was applied with another text; add a new migration instead of editing one"],
            )
    return names
