"""Servers that an operator has set otherwise than the embedded one: the same comes out, or they are refused."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from decimal import Decimal
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import uuid4

import psycopg
import psycopg2
import pytest
import sqlalchemy

from tally.domain.errors import Refused
from tally.services.orchestrator import url_for_dagster
from tally.services.registry import define_type
from tally.store.database import RELIED_ON, beside, connected, conninfo, pool
from tally.store.migrate import migrate
from tests.conftest import fresh_database, load_builtin
from tests.integration.metering_sql import compiled_expression, meter
from tests.integration.sending import event, send, statuses
from tests.integration.test_ingest_concurrency import wait_until_somebody_waits

# Each would change, hide or break off something; some have done so.
OTHERWISE = {
    "default_transaction_isolation": "repeatable read",
    "timezone": "Asia/Kolkata",
    "datestyle": "German",
    "intervalstyle": "iso_8601",
    "client_encoding": "LATIN1",
    "standard_conforming_strings": "off",
    "bytea_output": "escape",
    "array_nulls": "off",
    "search_path": "nowhere",
    "synchronous_commit": "off",
    "statement_timeout": "1ms",
    "lock_timeout": "1ms",
    "idle_in_transaction_session_timeout": "1ms",
    "idle_session_timeout": "1ms",
}
UNLIMITED = {name: "0" for name in OTHERWISE if name.endswith("timeout")}
EXPECTED = RELIED_ON | UNLIMITED | {"search_path": "public", "synchronous_commit": "on", "jit": "off"}


def set_otherwise(server_url: str, url: str, settings: dict[str, str]) -> None:
    """Set what all sessions of a database begin with."""
    name = urlsplit(url).path.removeprefix("/")
    with connected(server_url) as server:
        for setting, value in settings.items():
            server.execute(f"alter database \"{name}\" set {setting} = '{value}'".encode())


def asking(url: str, options: str) -> str:
    """A URL that asks for something of its sessions."""
    return f"{url}{'&' if '?' in url else '?'}options={quote(options)}"


def settings_of(connection: Any) -> dict[str, str]:
    """What a session is set to, asked with any driver."""
    cursor = connection.cursor()
    cursor.execute(" union all ".join(f"select '{name}', current_setting('{name}')" for name in EXPECTED))
    return dict(cursor.fetchall())


@pytest.fixture
def otherwise_url(server_url: str, metering_url: str) -> str:
    """URL of a metering database in which sessions begin otherwise than Tally expects."""
    set_otherwise(server_url, metering_url, OTHERWISE)
    return metering_url


def test_sessions_of_all_parts_are_set_to_what_tally_relies_on(otherwise_url: str) -> None:
    """Whatever the database says: commands, sessions beside theirs, the API and Great Expectations."""
    with connected(otherwise_url) as connection, beside(connection) as other:
        assert settings_of(connection) == settings_of(other) == EXPECTED
    limited = EXPECTED | {"statement_timeout": "2min"}
    with pool(otherwise_url, 1, 120) as pooled, pooled.connection() as connection, beside(connection) as other:
        assert settings_of(connection) == settings_of(other) == limited
    with closing(psycopg2.connect(conninfo(otherwise_url))) as checks:
        assert settings_of(checks) == EXPECTED


def test_sessions_of_dagster_find_its_tables_as_before_and_tell_instants_in_utc(
    server_url: str, metering_url: str
) -> None:
    set_otherwise(server_url, metering_url, {"search_path": "dagster", "timezone": "Asia/Kolkata"})
    url = url_for_dagster(asking(metering_url, "-c work_mem=123MB") + "&application_name=a%20b")
    engine = sqlalchemy.create_engine(url, poolclass=sqlalchemy.NullPool)
    with closing(engine.raw_connection()) as dagster:
        cursor = dagster.cursor()
        names = ("search_path", "timezone", "work_mem", "application_name")
        cursor.execute("select array[" + ", ".join(f"current_setting('{name}')" for name in names) + "]")
        assert cursor.fetchone() == (["dagster", "UTC", "123MB", "a b"],)


def test_sessions_of_dbt_are_set_to_what_tally_relies_on(otherwise_url: str) -> None:
    query = " union all ".join(f"select '{name}', current_setting('{name}')" for name in EXPECTED)
    rows = f'(run_query("{query}").rows if execute else [])'
    template = f"{{% for name, value in {rows} %}}{{{{ name }}}}={{{{ value }}}}\n{{% endfor %}}"
    with connected(otherwise_url) as metering:
        lines = compiled_expression(metering, template).split("\n")
    assert dict(line.strip().split("=") for line in lines if line.strip()) == EXPECTED


def test_what_a_url_asks_of_its_sessions_holds_unless_tally_relies_on_another(otherwise_url: str) -> None:
    """A role to act as, memory, a limit: nothing of it is dropped silently, nor does it change what comes out."""
    asked = "-c statement_timeout=9s -c work_mem=123MB -c timezone=Asia/Tokyo"
    with connected(asking(otherwise_url, asked)) as connection:
        work_mem = connection.execute("show work_mem").fetchone()
        assert settings_of(connection) == EXPECTED | {"statement_timeout": "9s"}
    assert work_mem == ("123MB",)


@pytest.fixture
def owner(server_url: str) -> Iterator[str]:
    """A role with no right but to log in, which the job of TimescaleDB does."""
    name = f"tally_test_{uuid4().hex[:12]}"
    with connected(server_url) as server:
        server.execute(f"create role {name} login".encode())
        yield name
        server.execute(f"drop role {name}".encode())


def test_a_month_comes_out_the_same_on_any_server_for_a_role_that_owns_only_its_databases(
    server_url: str, owner: str
) -> None:
    """Sizes are told in their plain form, and findings tell instants in UTC, to the last character."""
    with (
        fresh_database(server_url, options=f"owner {owner}") as reporting_url,
        fresh_database(server_url, options=f"owner {owner}") as metering_url,
        ExitStack() as stack,
    ):
        for url in (reporting_url, metering_url):
            set_otherwise(server_url, url, OTHERWISE)
        reporting, metering = (
            stack.enter_context(connected(asking(url, f"-c role={owner}"))) for url in (reporting_url, metering_url)
        )
        migrate(reporting, "reporting")
        migrate(metering, "metering")
        load_builtin(reporting, "reporting")
        load_builtin(metering, "metering")
        resized = {"size": {"size_gb": Decimal("7.0")}}
        send(reporting, event("a", "05T22:00:00", "volume.resize.end", project_id="東京", payload=resized))
        meter(reporting, metering)
        usage = metering.execute("select project_id, usage ->> 'size_gb' from metering.int_usage_records").fetchall()
        found = metering.execute("select detail from metering.int_findings where kind = 'open_left'").fetchall()
    assert usage == [("東京", "7")]
    assert found == [("its first event is an update at 2026-03-05 22:00:00+00: when it began is not known",)]


def test_a_batch_that_waited_for_a_change_of_its_type_is_judged_by_it(server_url: str, reporting_url: str) -> None:
    """In a snapshot of before it waited, the change would not be there yet, and the event be taken."""
    set_otherwise(server_url, reporting_url, OTHERWISE)
    before, after = ({"lifecycle": {name: "create"}} for name in ("a", "b"))
    first, second = (event(n, "01T00:00:00", "a", platform="test", cloud="t", resource_type="thing") for n in "12")
    with (
        connected(reporting_url) as reporting,
        connected(reporting_url) as sender,
        ThreadPoolExecutor(1) as thread,
    ):
        define_type(reporting, "test", "thing", before, "test")
        assert statuses(send(sender, first)) == ["accepted"]
        with reporting.transaction():
            define_type(reporting, "test", "thing", after, "test", accept_invalidation="renamed")
            sent = thread.submit(send, sender, second)
            wait_until_somebody_waits(reporting)
        assert statuses(sent.result()) == ["unknown_event_type"]


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"default_transaction_read_only": "on"}, "it takes no writes; set default_transaction_read_only off"),
        ({"session_replication_role": "replica"}, "session_replication_role is set, so that no trigger would protect"),
        ({"transaction_timeout": "1min"}, "transaction_timeout is 1min, and a load may take longer; set it to 0"),
    ],
)
def test_what_no_session_can_set_is_refused(
    server_url: str, metering_url: str, settings: dict[str, str], reason: str
) -> None:
    with connected(server_url) as server:
        if server.info.server_version < 170_000 and "transaction_timeout" in settings:
            pytest.skip("the server is too old to have it")
    set_otherwise(server_url, metering_url, settings)
    with connected(metering_url) as metering, pytest.raises(Refused) as refused:
        migrate(metering, "metering")
    name = urlsplit(metering_url).path.removeprefix("/")
    assert str(refused.value).startswith(f"database '{name}' at ")
    assert f" cannot be used: {reason}" in str(refused.value)


def test_another_encoding_is_refused(server_url: str) -> None:
    """Names of projects would not be storable in it, or come back as bytes."""
    plain = "encoding 'SQL_ASCII' locale_provider libc locale 'C'"
    with (
        fresh_database(server_url, options=plain) as url,
        connected(url) as connection,
        pytest.raises(Refused, match="its encoding is SQL_ASCII; create it with encoding 'UTF8'"),
    ):
        migrate(connection, "reporting")


def test_a_pooler_that_drops_what_sessions_are_set_to_is_noticed(metering_url: str) -> None:
    """Between transactions it would also hand our locks to others."""
    with (
        psycopg.connect(metering_url, autocommit=True) as connection,
        pytest.raises(Refused, match=r"settings of a session do not arrive; .* without a pooler in between"),
    ):
        migrate(connection, "metering")


def test_an_environment_that_settles_what_tally_relies_on_is_told(
    metering_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What libpq reads there comes after the options of a session."""
    monkeypatch.setenv("PGTZ", "Asia/Kolkata")
    with (
        connected(metering_url) as connection,
        pytest.raises(Refused, match="timezone is Asia/Kolkata and not UTC; unset PGTZ"),
    ):
        migrate(connection, "metering")
