"""Numbered SQL migrations: under an advisory lock, each in its own transaction, recorded with a checksum."""

import hashlib
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import NamedTuple

import psycopg
from psycopg.errors import DependentObjectsStillExist

from tally.domain.errors import Refused
from tally.store.database import Connection

_LOCK = 0x7A11_0001  # one migration at a time per database
_FORMER_TEXT = re.compile(r"^-- Applied as well with the text of ([0-9a-f]{64})\b", re.MULTILINE)


class Migration(NamedTuple):
    """One numbered SQL file."""

    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """Sha256 of the text: an applied migration is never edited."""
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @property
    def former_checksums(self) -> list[str]:
        """Those of texts that it had where it could be applied: it was mended for servers where it could not be."""
        return _FORMER_TEXT.findall(self.sql)


def migrations(database: str) -> Iterator[Migration]:
    """List the migrations of 'reporting' or 'metering' in order."""
    folder = files("tally.store") / database / "migrations"
    for file in sorted(folder.iterdir(), key=lambda file: file.name):
        if file.name.endswith(".sql"):
            yield Migration(file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))


def migrate(connection: Connection, database: str) -> list[str]:
    """Bring a database up to date and return the names of the migrations that were applied now.

    Raises:
        Refused: if a migration fails, or an applied one no longer has the text that was applied.
    """
    connection.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        return _apply(connection, database)
    finally:
        if not connection.closed:  # else the lock is gone, and why it was closed is to be told
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
            try:
                _apply_one(connection, migration)
            except psycopg.Error as error:
                raise Refused(f"migration {migration.name} of {database}", [_why(error), _remedy(error)]) from error
            names.append(migration.name)
        elif applied[migration.name] not in (migration.checksum, *migration.former_checksums):
            raise Refused(
                f"migration {migration.name} of {database}",
                ["it was applied with another text; add a new migration instead of editing one"],
            )
    return names


def _apply_one(connection: Connection, migration: Migration) -> None:
    with connection.transaction():
        connection.execute(migration.sql.encode())
        connection.execute(
            "insert into public.tally_migrations (name, checksum) values (%s, %s)", [migration.name, migration.checksum]
        )


def _why(error: psycopg.Error) -> str:
    """What the server says, with the detail: that names what is in the way."""
    told = error.diag.message_primary or str(error).partition("\n")[0]
    detail = "; ".join((error.diag.message_detail or "").splitlines())
    return f"{told} ({detail})" if detail else told


def _remedy(error: psycopg.Error) -> str:
    if isinstance(error, DependentObjectsStillExist):
        return "keep the definition of what depends on it, drop that, call tally migrate, and make it again"
    return "nothing of it was applied; mend that, then call tally migrate"
