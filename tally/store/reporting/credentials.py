"""SQL of credentials: who may call without a person. Rows are added and weakened, never deleted; secrets are hashed."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from tally.store.database import Connection

_LOCK = 0x7A11_0004  # one writer of credentials at a time: a name is judged over all of them
_COLUMNS = "id, name, role, kind, platform, cloud, subject, created_at, created_by, expires_at, revoked_at, replaces"


class CredentialRow(NamedTuple):
    """A credential without its secret. ``platform`` and ``cloud`` are None for an operator."""

    id: str
    name: str
    role: str
    kind: str
    platform: str | None
    cloud: str | None
    subject: str | None
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    replaces: str | None


def lock(connection: Connection) -> None:
    """Let one transaction at a time write credentials; whoever authenticates is not held up."""
    connection.execute("select pg_advisory_xact_lock(%s)", [_LOCK])


def add(connection: Connection, row: CredentialRow, secret_hash: bytes | None) -> None:
    """Add a credential; ``secret_hash`` is the sha256 of a token's secret, None for a certificate."""
    connection.execute(
        f"insert into reporting.credentials ({_COLUMNS}, secret_hash)".encode()
        + b" values (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)",
        [*row, secret_hash],
    )


def credentials(connection: Connection) -> list[CredentialRow]:
    """Return all credentials, in the order of their names and ages."""
    return _rows(connection, "order by name, created_at, id", [])


def credential(connection: Connection, credential_id: str) -> CredentialRow | None:
    """Return one credential."""
    rows = _rows(connection, "where id = %s", [credential_id])
    return rows[0] if rows else None


def named(connection: Connection, name: str) -> list[CredentialRow]:
    """Return the credentials of a name, the oldest first."""
    return _rows(connection, "where name = %s order by created_at, id", [name])


def replacement(connection: Connection, credential_id: str) -> CredentialRow | None:
    """Return the credential that replaces this one."""
    rows = _rows(connection, "where replaces = %s", [credential_id])
    return rows[0] if rows else None


def of_subject(connection: Connection, subject: str) -> CredentialRow | None:
    """Return the credential of a certificate's subject that is not revoked: there is one at most."""
    rows = _rows(connection, "where subject = %s and revoked_at is null", [subject])
    return rows[0] if rows else None


def with_secret(connection: Connection, credential_id: str) -> tuple[CredentialRow, bytes] | None:
    """Return a credential of kind token with the sha256 of its secret."""
    row = connection.execute(
        f"select {_COLUMNS}, secret_hash from reporting.credentials where id = %s and kind = 'token'".encode(),
        [credential_id],
    ).fetchone()
    return None if row is None else (CredentialRow(*row[:-1]), bytes(row[-1]))


def end(connection: Connection, credential_id: str, expires_at: datetime) -> datetime:
    """Let a credential expire at an instant, if it does not earlier, and return when it does."""
    row = connection.execute(
        "update reporting.credentials set expires_at = least(expires_at, greatest(created_at, %s)) where id = %s"
        " returning expires_at",
        [expires_at, credential_id],
    ).fetchone()
    assert row is not None
    ends: datetime = row[0]
    return ends


def revoke(connection: Connection, credential_id: str, revoked_at: datetime) -> bool:
    """Revoke a credential; False if it was revoked before."""
    done = connection.execute(
        "update reporting.credentials set revoked_at = greatest(created_at, %s) where id = %s and revoked_at is null",
        [revoked_at, credential_id],
    )
    return done.rowcount == 1


def _rows(connection: Connection, rest: str, values: Sequence[object]) -> list[CredentialRow]:
    rows = connection.execute(f"select {_COLUMNS} from reporting.credentials {rest}".encode(), values).fetchall()
    return [CredentialRow(*row) for row in rows]
