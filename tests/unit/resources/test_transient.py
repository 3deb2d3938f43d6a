"""A step is tried again for what passes by itself, and for nothing else."""

import psycopg
import psycopg2
import pytest

from resources.dbt_runner import DbtError
from resources.transient import is_transient
from tally.domain.errors import InvalidInput, NotFound, Refused, Unavailable


def caused(error: Exception, by: Exception) -> Exception:
    error.__cause__ = by
    return error


@pytest.mark.parametrize(
    "error",
    [
        Unavailable("database 'metering' at db:5432 does not answer"),
        psycopg.OperationalError("consuming input failed: server closed the connection unexpectedly"),
        psycopg.errors.AdminShutdown("terminating connection due to administrator command"),
        psycopg.errors.DeadlockDetected("deadlock detected"),
        psycopg2.OperationalError("SSL connection has been closed unexpectedly"),
        psycopg2.InterfaceError("connection already closed"),
        DbtError("dbt run: Database Error connection to server at 127.0.0.1, port 5432 failed: Connection refused"),
        RuntimeError("OperationalError: server closed the connection unexpectedly"),
        caused(ValueError("a wrapper"), psycopg.OperationalError("the connection is lost")),
    ],
    ids=lambda error: f"{type(error).__name__}",
)
def test_a_database_that_is_away_may_come_back(error: Exception) -> None:
    """Whoever tells it: psycopg, psycopg2, dbt or Great Expectations; also as the cause of another error."""
    assert is_transient(error)


@pytest.mark.parametrize(
    "error",
    [
        Refused("2026-03 cannot be finalized", ["its grace ends only later"]),
        InvalidInput("no"),
        NotFound("no"),
        DbtError("dbt run: usage: division by zero"),
        RuntimeError("a check could not be evaluated"),
        psycopg.errors.DiskFull("could not extend file"),
        psycopg.errors.UniqueViolation("duplicate key"),
        AssertionError("no"),
    ],
    ids=lambda error: f"{type(error).__name__}",
)
def test_what_is_the_same_the_next_time_fails_at_once(error: Exception) -> None:
    """A refusal, a faulty model, a full disk: to wait would only hide it."""
    assert not is_transient(error)
