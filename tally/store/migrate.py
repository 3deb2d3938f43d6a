"""Numbered SQL migrations: under an advisory lock, each in its own transaction, recorded with a checksum.

A database goes with the code that has the same migrations. Older ones are brought up to date, newer ones refused.
"""

import hashlib
import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from importlib.resources import files
from typing import NamedTuple

import psycopg
from psycopg.errors import DependentObjectsStillExist

from tally import __version__
from tally.domain.errors import Refused
from tally.store.database import Connection
from tally.store.metering.runs import release_metering_lock, try_metering_lock
from tally.store.server import refuse_unfit

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
        Refused: if the server is not as it has to be, a migration fails, an applied one no longer has the text that was
            applied or is not known here, or a metering run is under way.
    """
    refuse_unfit(connection)
    connection.execute("select pg_advisory_lock(%s)", [_LOCK])
    try:
        return _apply(connection, database)
    finally:
        if not connection.closed:  # else the lock is gone, and why it was closed is to be told
            connection.execute("select pg_advisory_unlock(%s)", [_LOCK])


def refuse_other(connection: Connection, database: str) -> None:
    """Refuse a database that other migrations have made than those of this code: it would be read or written wrongly.

    Raises:
        Refused: saying which side is older, or how the server is not as it has to be.
    """
    refuse_unfit(connection)
    known = {migration.name for migration in migrations(database)}
    applied = _applied(connection).keys()
    _refuse_newer(database, applied - known)
    if lacking := sorted(known - applied):
        why = f"migration {lacking[0]} has not been applied to it; stop what else uses it, then call tally migrate"
        raise Refused(f"the {database} database is of an earlier Tally than this one", [why])


def _apply(connection: Connection, database: str) -> list[str]:
    connection.execute(
        "create table if not exists public.tally_migrations ("
        "name text primary key, checksum text not null, applied_at timestamptz not null default now())"
    )
    applied = _applied(connection)
    known = list(migrations(database))
    _refuse_newer(database, applied.keys() - {migration.name for migration in known})
    _refuse_edited(database, known, applied)
    lacking = [migration for migration in known if migration.name not in applied]
    if lacking:
        with _no_run(connection, database):
            for migration in lacking:
                _apply_one(connection, database, migration)
    return [migration.name for migration in lacking]


def _applied(connection: Connection) -> dict[str, str]:
    """The checksums of what was applied, by name."""
    return dict(connection.execute("select name, checksum from public.tally_migrations").fetchall())


def _refuse_newer(database: str, unknown: Collection[str]) -> None:
    if unknown:
        why = f"migration {max(unknown)} was applied to it; run that Tally here too, or restore a backup from before it"
        raise Refused(f"the {database} database is of a later Tally than this one, {__version__}", [why])


def _refuse_edited(database: str, known: Collection[Migration], applied: dict[str, str]) -> None:
    for migration in known:
        texts = (migration.checksum, *migration.former_checksums)
        if applied.get(migration.name, migration.checksum) not in texts:
            raise Refused(
                f"migration {migration.name} of {database}",
                ["it was applied with another text; add a new migration instead of editing one"],
            )


@contextmanager
def _no_run(connection: Connection, database: str) -> Iterator[None]:
    """Keep metering runs out: one that is under way would go on in tables that are no longer what it has begun with."""
    if not try_metering_lock(connection):
        why = "a metering run is under way; wait for its end, or end it, and start this again"
        raise Refused(f"the {database} database cannot be brought up to date", [why])
    try:
        yield
    finally:
        if not connection.closed:
            release_metering_lock(connection)


def _apply_one(connection: Connection, database: str, migration: Migration) -> None:
    try:
        with connection.transaction():
            connection.execute(migration.sql.encode())
            connection.execute(
                "insert into public.tally_migrations (name, checksum) values (%s, %s)",
                [migration.name, migration.checksum],
            )
    except psycopg.Error as error:
        raise Refused(f"migration {migration.name} of {database}", [_why(error), _remedy(error)]) from error


def _why(error: psycopg.Error) -> str:
    """What the server says, with the detail: that names what is in the way."""
    told = error.diag.message_primary or str(error).partition("\n")[0]
    detail = "; ".join((error.diag.message_detail or "").splitlines())
    return f"{told} ({detail})" if detail else told


def _remedy(error: psycopg.Error) -> str:
    if isinstance(error, DependentObjectsStillExist):
        return "keep the definition of what depends on it, drop that, call tally migrate, and make it again"
    return "nothing of it was applied; mend that, then call tally migrate"
