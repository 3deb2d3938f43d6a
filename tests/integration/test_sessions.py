"""Reading with several sessions: the results in order, and all that has been written is seen."""

from functools import partial

import pytest
from psycopg import errors

from tally.store.database import Connection
from tally.store.sessions import SESSIONS, reader


def waited(seconds: float, connection: Connection) -> tuple[float, int]:
    """The seconds again, from a session that is told by its process."""
    row = connection.execute("select %s, pg_backend_pid(), pg_sleep(%s)", [seconds, seconds]).fetchone()
    assert row is not None
    return row[0], row[1]


def test_results_come_in_order_from_sessions_of_their_own(metering: Connection) -> None:
    lengths = [0.05, 0.0, 0.02, 0.0, 0.0, 0.01]
    results = list(reader(metering)([partial(waited, seconds) for seconds in lengths]))
    assert [seconds for seconds, _ in results] == lengths
    sessions = {session for _, session in results}
    assert 1 < len(sessions) <= SESSIONS
    assert metering.info.backend_pid not in sessions


def test_a_transaction_is_read_by_itself_since_nobody_else_sees_it(metering: Connection) -> None:
    with metering.transaction(force_rollback=True):
        metering.execute("create table seen ()")
        count = partial(Connection.execute, query="select count(*) from seen")
        assert [cursor.fetchone() for cursor in reader(metering)([count] * 3)] == [(0,)] * 3


def test_one_query_needs_no_other_session(metering: Connection) -> None:
    assert list(reader(metering)([lambda connection: connection.info.backend_pid])) == [metering.info.backend_pid]


def test_what_fails_is_raised_where_its_result_was_expected(metering: Connection) -> None:
    def fail(connection: Connection) -> tuple[float, int]:
        connection.execute("select 1/0")
        return 0.0, 0

    results = reader(metering)([partial(waited, 0.0), fail, partial(waited, 0.0)])
    assert next(results)[0] == 0.0
    with pytest.raises(errors.DivisionByZero):
        next(results)
