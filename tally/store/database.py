"""Connections to PostgreSQL: one way to open them, with the same session settings everywhere."""

from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import TupleRow
from psycopg.types.json import set_json_dumps, set_json_loads
from psycopg_pool import ConnectionPool

from tally.domain.errors import InvalidInput, Unavailable
from tally.store.json_text import read_json, write_json

Connection = psycopg.Connection[TupleRow]

POOL_TIMEOUT = 5  # seconds

# What sessions are set to, whatever a server, a database or a role is; the URL of a database may say otherwise.
_USUAL = {
    "application_name": "tally",
    "jit": "off",  # timelines and rating are long set-based statements: it only adds noise (DESIGN.md section 3)
    "search_path": "public",  # where extensions are; what is Tally's own is named with its schema
    "synchronous_commit": "on",  # an answer to events is a promise that a crash of the server must not break
    # A close takes its time, and its lock idles meanwhile: limits that are meant for others would break it off.
    "statement_timeout": "0",
    "lock_timeout": "0",
    "idle_in_transaction_session_timeout": "0",
    "idle_session_timeout": "0",
}
# What they are set to in any case: otherwise something else would come out.
RELIED_ON = {
    "tally.session": "on",  # nothing but a mark: these settings have arrived
    "default_transaction_isolation": "read committed",  # who has waited for a lock reads what its holder has written
    "timezone": "UTC",  # in which an instant is told as text, and so hashed
    "datestyle": "ISO, MDY",
    "intervalstyle": "postgres",
    "client_encoding": "UTF8",
    "standard_conforming_strings": "on",
    "bytea_output": "hex",
    "array_nulls": "on",
    "default_table_access_method": "heap",
}


def connect(url: str, **options: Any) -> Connection:
    """Open a connection in autocommit; transactions are written as ``with connection.transaction()``.

    Raises:
        Unavailable: naming the host and database, never the password.
        InvalidInput: if the URL cannot be read.
    """
    try:
        return _open(conninfo(url), **options)
    except psycopg.ProgrammingError:  # whose text would tell the URL, and with it the password
        raise InvalidInput("the database URL cannot be read; write postgresql://user@host:5432/database") from None


def _open(parameters: str, **options: Any) -> Connection:
    try:
        connection = psycopg.connect(parameters, autocommit=True, **options)
    except psycopg.OperationalError as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
        raise Unavailable(f"{describe(parameters)} does not answer: {reason}") from None
    _configure(connection)
    return connection


def conninfo(url: str, **more: str) -> str:
    """A URL with what its sessions are set to, and ``more`` of that.

    Raises:
        psycopg.ProgrammingError: if the URL cannot be read.
    """
    return make_conninfo(url, options=session(url, **more))


def session(url: str, **more: str) -> str:
    """What the sessions of a URL are set to, in the form of PGOPTIONS: what the URL itself asks for comes between.

    Of two settings of one name the later one holds.

    Raises:
        psycopg.ProgrammingError: if the URL cannot be read.
    """
    return " ".join(filter(None, [_options(_USUAL), _asked(url), _options(more), _options(RELIED_ON)]))


def foreign_session(url: str) -> str:
    """Likewise of a program whose tables Tally does not know, nor by which search path it finds them."""
    return " ".join(filter(None, [_asked(url), _options(RELIED_ON)]))


def _asked(url: str) -> str:
    return str(conninfo_to_dict(url).get("options") or "")


def _options(settings: Mapping[str, str]) -> str:
    escaped = {name: value.replace("\\", "\\\\").replace(" ", "\\ ") for name, value in settings.items()}
    return " ".join(f"-c {name}={value}" for name, value in escaped.items())


def _configure(connection: Connection) -> None:
    """Read and write JSON exactly: psycopg's own way makes floats of decimals."""
    set_json_loads(read_json, connection)
    set_json_dumps(write_json, connection)


@contextmanager
def connected(url: str, **options: Any) -> Iterator[Connection]:
    """Open a connection for a block."""
    with closing(connect(url, **options)) as connection:
        yield connection


@contextmanager
def beside(connection: Connection) -> Iterator[Connection]:
    """Open another connection for a block, to the database of one and in the same way, passwords included."""
    parameters = {o.keyword.decode(): o.val.decode() for o in connection.pgconn.info if o.val is not None}
    with closing(_open(make_conninfo(**parameters))) as other:
        yield other


@contextmanager
def reading(connection: Connection) -> Iterator[None]:
    """A transaction of one snapshot that the database lets read only."""
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read, read only")
        yield


@contextmanager
def pool(url: str, size: int, statement_seconds: int) -> Iterator[ConnectionPool[Connection]]:
    """Open a pool of up to ``size`` connections for a block, for threads that each take one at a time.

    The server breaks a statement off that takes longer than ``statement_seconds``, waiting for locks included.

    A connection is tried before it is handed out, so that one that a restarted server has lost is replaced; while no
    server answers, taking one raises psycopg_pool.PoolTimeout after a few seconds.
    """
    with ConnectionPool(
        conninfo(url, statement_timeout=f"{statement_seconds}s"),
        kwargs={"autocommit": True},
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
        parts = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        return "the database URL"
    return f"database {parts.get('dbname', '?')!r} at {parts.get('host', 'localhost')}:{parts.get('port', 5432)}"
