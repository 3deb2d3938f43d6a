"""Connections to PostgreSQL: one way to open them, with the same session settings everywhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool

from tally.domain.errors import InvalidInput, Unavailable
from tally.store.json_text import read_json, write_json

Connection = psycopg.Connection[TupleRow]

POOL_TIMEOUT = 5  # seconds

# Timelines and rating are long set-based statements: JIT only adds noise (DESIGN.md section 3). The database tells an
# instant as text in the zone and style of the session, whatever those of the server are.
SESSION = "-c timezone=UTC -c datestyle=ISO -c intervalstyle=postgres -c jit=off -c application_name=tally"


def connect(url: str, **options: Any) -> Connection:
    """Open a connection in autocommit; transactions are written as ``with connection.transaction()``.

    Raises:
        Unavailable: naming the host and database, never the password.
        InvalidInput: if the URL cannot be read.
    """
    try:
        connection = psycopg.connect(url, autocommit=True, options=SESSION, **options)
    except psycopg.OperationalError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise Unavailable(f"{describe(url)} does not answer: {reason}") from None
    except psycopg.ProgrammingError:  # whose text would tell the URL, and with it the password
        raise InvalidInput("the database URL cannot be read; write postgresql://user@host:5432/database") from None
    _configure(connection)
    return connection


def _configure(connection: Connection) -> None:
    """Read and write JSON exactly: psycopg's own way makes floats of decimals."""
    set_json_loads(read_json, connection)
    set_json_dumps(write_json, connection)


@contextmanager
def connected(url: str, **options: Any) -> Iterator[Connection]:
    """Open a connection for a block."""
    connection = connect(url, **options)
    try:
        yield connection
    finally:
        connection.close()


@contextmanager
def beside(connection: Connection) -> Iterator[Connection]:
    """Open another connection for a block, to the database of one and in the same way, passwords included."""
    parameters = {o.keyword.decode(): o.val.decode() for o in connection.pgconn.info if o.val is not None}
    with connected(psycopg.conninfo.make_conninfo(**parameters)) as other:
        yield other


@contextmanager
def pool(url: str, size: int, statement_seconds: int) -> Iterator[ConnectionPool[Connection]]:
    """Open a pool of up to ``size`` connections for a block, for threads that each take one at a time.

    The server breaks a statement off that takes longer than ``statement_seconds``, waiting for locks included.

    A connection is tried before it is handed out, so that one that a restarted server has lost is replaced; while no
    server answers, taking one raises psycopg_pool.PoolTimeout after a few seconds.
    """
    with ConnectionPool(
        url,
        kwargs={"autocommit": True, "options": f"{SESSION} -c statement_timeout={statement_seconds}s"},
        connection_class=Connection,
        configure=_configure,
        check=ConnectionPool.check_connection,
        min_size=1,
        max_size=size,
        timeout=POOL_TIMEOUT,
        reconnect_timeout=POOL_TIMEOUT,  # beyond, whoever asks tries anew: attempts would come ever more rarely
        open=False,
    ) as connections:
        yield connections


def describe(url: str) -> str:
    """Name a database without its credentials."""
    try:
        parts = psycopg.conninfo.conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "the database URL"
    return f"database {parts.get('dbname', '?')!r} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
