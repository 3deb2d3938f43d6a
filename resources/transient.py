"""Which errors may pass by themselves, so that a step is tried again: a database that is down, a connection lost.

Everything else fails at once: a violated check, a refusal or a faulty model is the same the next time.
"""

from collections.abc import Iterator

import psycopg
import psycopg2

from resources.dbt_runner import DbtError
from tally.domain.errors import Unavailable

# Connection lost, server stopped or starting, deadlock. No state at all: there is no connection that could tell one.
_STATES = ("08", "57P01", "57P02", "57P03", "40001", "40P01")
# dbt and Great Expectations hand on the text of a driver's error, not the error.
_TEXTS = (
    "server closed the connection",
    "terminating connection",
    "could not connect to server",
    "connection to server",
    "connection already closed",
    "the database system is",
)


def is_transient(error: BaseException) -> bool:
    """Whether what failed may succeed in a moment, judged by the error and by what it comes from."""
    return any(_passes(each) for each in _chain(error))


def _passes(error: BaseException) -> bool:
    if isinstance(error, Unavailable):
        return True
    if isinstance(error, psycopg.OperationalError):
        return error.sqlstate is None or error.sqlstate.startswith(_STATES)
    if isinstance(error, psycopg2.OperationalError | psycopg2.InterfaceError):
        return error.pgcode is None or error.pgcode.startswith(_STATES)
    return isinstance(error, DbtError | RuntimeError) and any(text in str(error) for text in _TEXTS)


def _chain(error: BaseException) -> Iterator[BaseException]:
    following: BaseException | None = error
    while following is not None:
        yield following
        following = following.__cause__ or following.__context__
