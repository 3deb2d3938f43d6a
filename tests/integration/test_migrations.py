"""Migrations of both databases: in order, once, under a lock, and never edited."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tally.domain.errors import Refused
from tally.store.database import connected
from tally.store.migrate import migrate, migrations
from tests.conftest import fresh_database

KINDS = ("reporting", "metering")


@pytest.mark.parametrize("kind", KINDS)
def test_a_second_migration_does_nothing(server_url: str, kind: str) -> None:
    """All migrations are applied in the order of their numbers, and then none."""
    with fresh_database(server_url) as url, connected(url) as connection:
        assert migrate(connection, kind) == [migration.name for migration in migrations(kind)]
        assert migrate(connection, kind) == []


@pytest.mark.parametrize("kind", KINDS)
def test_two_migrations_at_once_apply_each_one_once(server_url: str, kind: str) -> None:
    """The advisory lock lets one go first; the other one finds nothing left to do."""

    def run(url: str) -> list[str]:
        with connected(url) as connection:
            return migrate(connection, kind)

    with fresh_database(server_url) as url, ThreadPoolExecutor(2) as pool:
        applied = sorted(pool.map(run, [url, url]))
    assert applied == [[], [migration.name for migration in migrations(kind)]]


def test_a_migration_that_was_edited_after_it_was_applied_is_refused(server_url: str) -> None:
    """Its recorded checksum no longer fits: the database is not what the text says."""
    with fresh_database(server_url) as url, connected(url) as connection:
        migrate(connection, "metering")
        connection.execute("update public.tally_migrations set checksum = 'of another text' where name = '0001_raw'")
        with pytest.raises(Refused, match=r"0001_raw of metering.*add a new migration"):
            migrate(connection, "metering")
