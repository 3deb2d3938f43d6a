"""Great Expectations answers from a process of its own: small, replaced when it dies, and never left behind."""

import signal
from pathlib import Path

import pytest

from resources.databases import Databases
from resources.expectations import Expectations, Validator, validator
from resources.transient import is_transient
from tally.domain.errors import Unavailable

ROWS = """select 'c' as cloud, 't' as resource_type, subject, 'is ' || subject as detail
          from unnest(array[{}]::text[]) as subject"""


@pytest.fixture
def expectations(metering_url: str) -> Expectations:
    """Great Expectations, for an empty metering database."""
    return Expectations(databases=Databases(metering_url=metering_url))


def test_each_query_has_its_verdict(expectations: Expectations) -> None:
    """In the order of the queries, with the rows that violate it, whatever characters they hold."""
    verdicts = expectations.validate_queries({"b": ROWS.format("'ü\n|', 'a'"), "a": ROWS.format("")})
    assert [(each.name, each.passed, each.violations) for each in verdicts] == [("b", False, 2), ("a", True, 0)]
    assert [row["subject"] for row in verdicts[0].first_rows] == ["a", "ü\n|"]
    assert set(verdicts[0].first_rows[0]) == {"cloud", "resource_type", "subject", "detail"}


def test_what_the_database_says_is_told(expectations: Expectations) -> None:
    """A faulty query is no reason to try again; and the process goes on to answer."""
    with pytest.raises(RuntimeError, match=r'relation "nowhere" does not exist') as told:
        expectations.validate_queries({"a": "select * from nowhere"})
    assert not is_transient(told.value)
    assert expectations.validate_queries({"a": ROWS.format("")})[0].passed


def test_a_database_that_is_down_is_tried_again() -> None:
    """The text of the driver's error is enough to tell."""
    nowhere = Expectations(databases=Databases(metering_url="postgresql://nobody@127.0.0.1:1/nothing"))
    with pytest.raises(RuntimeError, match="connection to server") as told:
        nowhere.validate_queries({"a": ROWS.format("")})
    assert is_transient(told.value)


def test_a_process_that_is_killed_is_replaced(expectations: Expectations) -> None:
    """What was asked of it may be tried again, and then another answers."""
    killed = validator()
    killed.process.send_signal(signal.SIGSTOP)  # so that it cannot answer first
    killed.process.kill()
    with pytest.raises(Unavailable, match=f"exit code -{signal.SIGKILL:d}") as told:
        killed.ask({"url": "", "queries": {}})
    assert is_transient(told.value)
    assert expectations.validate_queries({"a": ROWS.format("")})[0].passed
    assert validator() is not killed


def test_the_process_does_without_what_no_invariant_needs(expectations: Expectations) -> None:
    """Neither scipy's statistics nor pyarrow are loaded, nor anything of Dagster: two thirds of the memory."""
    expectations.validate_queries({"a": ROWS.format("")})
    loaded = Path(f"/proc/{validator().process.pid}/maps").read_text(encoding="utf-8")
    assert "/psycopg2" in loaded
    assert [name for name in ("/pyarrow/", "/scipy/stats/", "/grpc/") if name in loaded] == []


def test_the_process_ends_with_who_started_it() -> None:
    """Even while it imports, and without a signal: its input ends with whoever is killed."""
    started = Validator()
    assert started.process.stdin is not None
    started.process.stdin.close()
    assert started.process.wait(30) == 0
    started.stop()
