"""What a run has metered and rated is in the ledger as a whole or not at all, though two sessions write it."""

from collections.abc import Callable

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from tally.domain.run import Run
from tally.store.database import Connection, beside, connected
from tally.store.metering import ledger
from tally.store.metering.rating_sql import RatingTables, rating_sql
from tests.integration.ledger_by_hand import begin_run

RESOURCES = 40  # so many that each session writes some
DIMENSIONS = 3

_USAGE = """
    create schema metering;
    create view metering.stg_runs as select id as run_id, pricing_version from ledger.runs;
    create table metering.int_usage_records as
    select 'os' as cloud, 'openstack' as platform, 'instance' as resource_type, 'i-' || n as resource_id,
        md5(n::text)::uuid as id, id as run_id, 1 as lifetime_no, 'p' as project_id, 'active' as state,
        period_from as from_ts, period_to as to_ts, null as from_event_id, null as to_event_id,
        744 * 3600000000 as length_us, '{}'::jsonb as size, '{}'::jsonb as counters,
        '{"vcpus": 2, "ram_gb": 4, "disk_gb": 8}'::jsonb as usage
    from ledger.runs cross join generate_series(1, 40) as n"""


@pytest.fixture
def run(metering: Connection) -> Run:
    """A running run with the usage and the costs of a month as dbt leaves them."""
    begun = begin_run(metering)
    metering.execute(_USAGE)
    rated = rating_sql(RatingTables("metering.stg_runs", "metering.int_usage_records"))
    metering.execute(f"create table metering.int_rated_records as {rated}".encode())
    return begun


def count(metering: Connection, table: str) -> int:
    """How many records are in the ledger."""
    row = metering.execute(f"select count(*) from ledger.{table}".encode()).fetchone()
    assert row is not None
    return int(row[0])


def test_rating_is_shared_out_to_workers(metering: Connection, run: Run) -> None:  # noqa: ARG001
    """What costs without terms come to is worked out by them; the session that writes only gathers it."""
    with metering.transaction():
        metering.execute("set local parallel_setup_cost = 0; set local min_parallel_table_scan_size = 0")
        rated = rating_sql(RatingTables("metering.stg_runs", "metering.int_usage_records"))
        plan = "\n".join(row[0] for row in metering.execute(f"explain {rated}".encode()))
    assert "\n  ->  Gather" in plan, plan


def test_each_record_is_written_once(metering: Connection, run: Run) -> None:
    """By one session or the other; they say together how many there are."""
    assert ledger.write_usage(metering, run.id) == RESOURCES == count(metering, "usage_records")
    assert ledger.write_rated(metering, run.id) == RESOURCES * DIMENSIONS == count(metering, "rated_records")


@pytest.mark.parametrize("session", ["asc", "desc"])
@pytest.mark.parametrize(
    ("table", "write"), [("usage_records", ledger.write_usage), ("rated_records", ledger.write_rated)]
)
def test_what_fails_in_one_session_is_not_written_by_the_other(
    metering: Connection, run: Run, table: str, write: Callable[[Connection, object], int], session: str
) -> None:
    """Whichever of them it is: here one record is there already."""
    ledger.write_usage(metering, run.id)
    ledger.write_rated(metering, run.id)
    kept = f"(select resource_id from ledger.{table} order by hashtext(resource_id) {session} limit 1)"
    metering.execute(f"delete from ledger.rated_records where resource_id <> {kept}".encode())
    if table == "usage_records":
        metering.execute(f"delete from ledger.usage_records where resource_id <> {kept}".encode())
    before = count(metering, table)
    with pytest.raises(psycopg.errors.UniqueViolation):
        write(metering, run.id)
    assert count(metering, table) == before > 0


def test_the_other_session_connects_as_the_first_one_did(metering_url: str) -> None:
    """To the same database, with the same role, password and settings."""
    password = conninfo_to_dict(metering_url).get("password") or "it's secret"  # where none is asked for
    url = make_conninfo(metering_url, password=password, connect_timeout=7, application_name="other")
    with connected(url) as one, beside(one) as other:
        assert (other.info.dsn, other.info.password) == (one.info.dsn, password)
        settings = "select current_user, current_database(), current_setting('timezone'), current_setting('jit')"
        assert other.execute(settings).fetchone() == one.execute(settings).fetchone()
