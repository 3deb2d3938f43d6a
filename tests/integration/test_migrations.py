"""Migrations of both databases: in order, once, under a lock, and never edited."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from tally import __version__
from tally.domain.errors import Refused
from tally.store.database import Connection, connected
from tally.store.metering.runs import release_metering_lock, try_metering_lock
from tally.store.migrate import migrate, migrations, refuse_other
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


def test_a_migration_that_was_mended_where_it_failed_is_known_by_its_former_text(reporting: Connection) -> None:
    """Where it could be applied as it was, the database is as the text says."""
    mended = [migration for migration in migrations("reporting") if migration.former_checksums]
    assert [migration.name for migration in mended] == ["0003_hypertable"]
    for migration in mended:
        for checksum in migration.former_checksums:
            reporting.execute(
                "update public.tally_migrations set checksum = %s where name = %s", [checksum, migration.name]
            )
            assert migrate(reporting, "reporting") == []


def test_a_view_of_ones_own_that_stands_in_the_way_is_named_with_what_to_do(metering: Connection) -> None:
    """A mart is made anew in another form: what others have built on it is theirs, and never dropped."""
    name = "0031_versions_of_corrections"
    metering.execute("delete from public.tally_migrations where name = %s", [name])
    metering.execute("create schema marts")
    metering.execute("create table marts.project_corrections (pricing_version text)")
    metering.execute("create view public.mine as select pricing_version from marts.project_corrections")
    with pytest.raises(Refused) as refused:
        migrate(metering, "metering")
    assert str(refused.value) == (
        f"migration {name} of metering: cannot drop table marts.project_corrections because other objects depend on it"
        " (view mine depends on table marts.project_corrections);"
        " keep the definition of what depends on it, drop that, call tally migrate, and make it again"
    )
    metering.execute("drop view public.mine")
    assert migrate(metering, "metering") == [name]


def test_a_migration_that_fails_leaves_nothing_and_is_named(server_url: str) -> None:
    """Those before it stay applied, and the next call goes on with it."""
    with fresh_database(server_url) as url, connected(url) as connection:
        connection.execute("create schema ledger")
        connection.execute("create table ledger.runs ()")
        with pytest.raises(Refused, match='migration 0002_ledger of metering: relation "runs" already exists; nothing'):
            migrate(connection, "metering")
        connection.execute("drop table ledger.runs")
        assert migrate(connection, "metering") == [migration.name for migration in migrations("metering")][1:]


def test_a_server_that_goes_away_meanwhile_is_told_with_the_migration(server_url: str) -> None:
    """And not that the lock could not be given back."""
    with fresh_database(server_url) as url, connected(url) as connection:
        connection.execute(
            "create function public.leave() returns event_trigger language plpgsql"
            " as 'begin perform pg_terminate_backend(pg_backend_pid()); end'"
        )
        connection.execute(
            "create event trigger leave on ddl_command_start when tag in ('CREATE SCHEMA') execute function leave()"
        )
        with pytest.raises(Refused, match=r"migration 0001_raw of metering: .*; nothing of it was applied"):
            migrate(connection, "metering")


def test_a_database_of_a_later_version_is_refused(metering: Connection) -> None:
    """An earlier version would read and write what it does not know, whether it migrates or not."""
    metering.execute("insert into public.tally_migrations (name, checksum) values ('9999_to_come', '')")
    for refuse in (migrate, refuse_other):
        with pytest.raises(Refused) as refused:
            refuse(metering, "metering")
        assert str(refused.value) == (
            f"the metering database is of a later Tally than this one, {__version__}: migration 9999_to_come was"
            " applied to it; run that Tally here too, or restore a backup from before it"
        )


def test_a_database_of_an_earlier_version_is_refused_by_whoever_does_not_migrate(metering: Connection) -> None:
    """The first migration that it lacks is named."""
    refuse_other(metering, "metering")
    metering.execute("delete from public.tally_migrations where name > '0024'")
    with pytest.raises(Refused, match=r"is of an earlier Tally than this one: migration 0024_\w+ has not"):
        refuse_other(metering, "metering")


def test_nothing_is_migrated_while_a_run_is_under_way(server_url: str) -> None:
    """It would go on in tables that are no longer those it has begun with; what is up to date does not wait for it."""
    with fresh_database(server_url) as url, connected(url) as connection, connected(url) as run:
        assert try_metering_lock(run)
        with pytest.raises(Refused, match="metering database cannot be brought up to date: a metering run"):
            migrate(connection, "metering")
        release_metering_lock(run)
        assert migrate(connection, "metering")
        assert try_metering_lock(run)
        assert migrate(connection, "metering") == []
