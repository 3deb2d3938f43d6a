"""Finalized records refuse ordinary statements of every role, the owner and the superuser included (rule 19)."""

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest
from psycopg import sql

from tally.store.database import Connection, connected
from tests.integration.closing import House

RECORDS = ("usage_records", "rated_records", "attributions", "adjustments", "bills", "findings", "checks")
APPEND_ONLY = ("pricing_versions", "prices", "price_tiers", "price_modifiers", "unpriced", "waivers")
SCHEMAS = ("ledger", "delivery", "raw")
REFUSED = {"TA001", "TA002", "23503"}  # the last: what is still referred to, as usage is by its costs


@pytest.fixture
def finalized(house: House) -> Iterator[Connection]:
    """A metering database with a finalized run, and at least one row in each of its tables."""
    with connected(house.metering_url) as metering:
        ((run_id,),) = metering.execute("select id from ledger.runs").fetchall()
        metering.execute(
            "insert into ledger.findings (run_id, kind, blocking, subject, detail)"
            " values (%s, 'note', false, 's', 'd')",
            [run_id],
        )
        metering.execute(
            """insert into ledger.adjustments (run_id, cloud, project_id, relation_id, place, type, relation_type,
                   source_cloud, source_project_id, target_cloud, target_project_id, target_name, scope, rate,
                   description, base, amount, currency)
               select run_id, cloud, project_id, gen_random_uuid(), 0, 'discount', 'managed_by', cloud, project_id,
                   cloud, 'partner', 'partner', 'all', 0.1, '', 10, -1, currency
               from ledger.bills"""
        )
        metering.execute("insert into ledger.waivers (period, kind, reason, actor) values ('2026-03', 'k', 'r', 'a')")
        metering.execute("update ledger.runs set status = 'finalized', finalized_at = now()")
        yield metering


@pytest.fixture(params=["superuser", "owner", "clerk"])
def role(finalized: Connection, request: pytest.FixtureRequest) -> Iterator[Connection]:
    """The same connection, acting as a superuser, as the owner of the tables, and as a role that was granted all."""
    if request.param != "superuser":
        name = f"{request.param}_{finalized.info.dbname}"
        role = sql.Identifier(name)
        finalized.execute(sql.SQL("create role {}").format(role))
        for schema in map(sql.Identifier, SCHEMAS):
            finalized.execute(sql.SQL("grant usage on schema {} to {}").format(schema, role))
            finalized.execute(sql.SQL("grant all on all tables in schema {} to {}").format(schema, role))
        if request.param == "owner":
            tables = finalized.execute(
                "select schemaname, tablename from pg_tables where schemaname = any(%s)", [list(SCHEMAS)]
            )
            for table in tables.fetchall():
                statement = sql.SQL("alter table {} owner to {}")
                finalized.execute(statement.format(sql.Identifier(*table), role))
        finalized.execute(sql.SQL("set role {}").format(role))
    yield finalized
    if request.param != "superuser":
        finalized.execute("reset role")
        finalized.execute(sql.SQL("reassign owned by {} to current_user").format(role))
        finalized.execute(sql.SQL("drop owned by {}").format(role))
        finalized.execute(sql.SQL("drop role {}").format(role))


def refusal(connection: Connection, statement: str) -> str | None:
    """SQLSTATE with which a statement is refused; None if it went through."""
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode())
    except psycopg.Error as error:
        return error.sqlstate
    return None


@pytest.mark.parametrize("table", RECORDS)
def test_records_of_a_finalized_run_refuse_update_delete_insert_and_truncate(role: Connection, table: str) -> None:
    """Ordinary statements on the finalized records fail, whoever sends them."""
    statements = (
        f"update ledger.{table} set run_id = run_id",
        f"delete from ledger.{table}",
        f"truncate ledger.{table} cascade",
    )
    assert {statement: refusal(role, statement) in REFUSED for statement in statements} == dict.fromkeys(
        statements, True
    )


@pytest.mark.parametrize("table", APPEND_ONLY)
def test_prices_and_waivers_are_append_only(role: Connection, table: str) -> None:
    """A price version that was loaded, and a waiver that was given, stay as they are."""
    column = "kind" if table == "waivers" else "version"
    for statement in (
        f"update ledger.{table} set {column} = {column}",
        f"delete from ledger.{table}",
        f"truncate ledger.{table} cascade",
    ):
        assert refusal(role, statement) in REFUSED, statement


def test_the_finalized_run_itself_never_changes(role: Connection) -> None:
    """Neither its status nor anything else of it, and it cannot be removed."""
    for statement in (
        "update ledger.runs set status = 'completed', finalized_at = null",
        "update ledger.runs set outputs_hash = 'x'",
        "delete from ledger.runs",
        "truncate ledger.runs cascade",
    ):
        assert refusal(role, statement) in REFUSED, statement


def test_nothing_is_added_to_a_finalized_run(role: Connection) -> None:
    """A late record is refused, too: what arrives late becomes a correction."""
    statement = (
        "insert into ledger.bills select run_id, cloud, project_id || '2', platform,"
        " total, currency, document, document_hash from ledger.bills"
    )
    assert refusal(role, statement) == "TA002"
    assert refusal(role, with_other("usage_records", id="run_id")) == "TA002"
    assert refusal(role, with_other("rated_records", id="run_id")) == "TA002"


@pytest.mark.parametrize("table", ["usage_records", "rated_records"])
def test_no_run_is_finalized_while_records_are_added_to_it(house: House, table: str) -> None:
    """It waits until they are committed, so that none comes to a finalized run, whatever locks their writer holds."""
    with connected(house.metering_url) as writer, connected(house.metering_url) as metering, writer.transaction():
        writer.execute(with_other(table, id="run_id").encode())
        metering.execute("set lock_timeout = '50ms'")
        lock_not_available = "55P03"
        finalizing = "update ledger.runs set status = 'finalized', finalized_at = now()"
        assert refusal(metering, finalizing) == lock_not_available


def test_a_finalized_run_needs_the_instant_at_which_it_was(house: House) -> None:
    """The constraint behind the service: a preliminary run cannot be finalized by whatever statement."""
    with connected(house.metering_url) as metering:
        assert refusal(metering, "update ledger.runs set status = 'finalized'") == "23514"
        assert (
            refusal(metering, "update ledger.runs set status = 'finalized', finalized_at = now(), preliminary = true")
            == "23514"
        )


def with_other(table: str, **columns: str) -> str:
    """A statement that inserts one record of a table again, with the values of some columns taken from others."""
    values = ", ".join(f"'{name}', t.{other}" for name, other in columns.items())
    changed = f"(jsonb_populate_record(t, jsonb_build_object({values}))).*"
    return f"insert into ledger.{table} select {changed} from ledger.{table} as t limit 1"


@pytest.mark.parametrize(
    "statement",
    [
        with_other("usage_records", id="run_id", run_id="id"),
        with_other("rated_records", id="run_id", run_id="id"),
        with_other("rated_records", id="run_id", usage_record_id="id"),
        "delete from ledger.usage_records where id = (select usage_record_id from ledger.rated_records limit 1)",
        "delete from ledger.runs",
    ],
)
def test_records_hang_on_their_run_and_costs_on_their_usage(house: House, statement: str) -> None:
    """Nothing refers to what is not there, and what is referred to stays, in open months too."""
    with connected(house.metering_url) as metering:
        assert refusal(metering, statement) == "23503"


@pytest.mark.parametrize("table", ["usage_records", "rated_records"])
def test_a_record_is_reversed_once(house: House, table: str) -> None:
    """A second reversal of it is refused, whatever its id; the first is not."""
    negated = "jsonb_populate_record(t, jsonb_build_object('id', %s::uuid, 'sign', -1, 'reverses_id', t.id))"
    reversal = (
        f"insert into ledger.{table} select ({negated}).* from ledger.{table} as t where sign = 1 order by id limit 1"
    )
    with connected(house.metering_url) as metering, metering.transaction(force_rollback=True):
        metering.execute(reversal.encode(), [uuid4()])
        with pytest.raises(psycopg.errors.UniqueViolation):
            metering.execute(reversal.encode(), [uuid4()])


def test_of_a_month_one_regular_run_counts_and_one_run_is_made(house: House) -> None:
    """S52, rule 17: a second one is refused by the database, whoever writes it; one that is replaced is not."""
    another = (
        "insert into ledger.runs select (jsonb_populate_record(r, jsonb_build_object("
        "'id', %s::uuid, 'status', %s::text))).* from ledger.runs as r order by started_at limit 1"
    )
    with connected(house.metering_url) as metering:
        with pytest.raises(psycopg.errors.UniqueViolation, match="runs_live"):
            metering.execute(another, [uuid4(), "completed"])
        metering.execute(another, [uuid4(), "superseded"])
        metering.execute(another, [uuid4(), "running"])
        with pytest.raises(psycopg.errors.UniqueViolation, match="runs_running"):
            metering.execute(another, [uuid4(), "running"])
