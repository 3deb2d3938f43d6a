"""Credentials of callers that are no persons: tokens and certificate identities, each bound to what it is for.

Persons prove themselves by OIDC, which is the API's business, as is the way a credential travels in a request.
"""

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.instants import format_instant
from tally.domain.principal import Principal, Role, Scope
from tally.services.clouds import register_cloud
from tally.store.database import Connection
from tally.store.reporting import audit
from tally.store.reporting import credentials as store

TOKEN_PREFIX = "tally_"  # noqa: S105 - what a token begins with is no secret
ROLES = (Role.INGEST, Role.SYNC, Role.OPERATOR)  # read_all and consumer are persons and services of the OIDC issuer
MAX_LIFE = timedelta(days=3660)
MAX_OVERLAP = timedelta(days=31)
DEFAULT_DAYS = 365

_TOKEN = re.compile(r"tally_(?P<id>[0-9a-f]{16})_(?P<secret>[0-9a-f]{64})", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", re.ASCII)
_NO_HASH = bytes(32)  # sha256 of nothing that anybody knows
_MAX_SUBJECT_BYTES = 1024


class Status(StrEnum):
    """Whether a credential is accepted."""

    ACTIVE = "active"
    EXPIRED = "expired"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential as it may be shown: without its secret, which nobody but its owner has."""

    id: str
    name: str
    role: Role
    scope: Scope | None
    subject: str | None  # of a certificate; None for a token
    created_at: datetime
    created_by: str
    expires_at: datetime
    revoked_at: datetime | None
    replaces: str | None

    def status(self, now: datetime) -> Status:
        """Whether it is accepted at an instant; a revocation holds from the moment it is committed."""
        if self.revoked_at is not None:
            return Status.REVOKED
        return Status.ACTIVE if now < self.expires_at else Status.EXPIRED

    @property
    def principal(self) -> Principal:
        """Who calls with it. What it may see is nothing, but for an operator: collectors only write."""
        kind = "token" if self.subject is None else "certificate"
        return Principal(
            f"{kind}:{self.name}", self.role, self.scope, None if self.role is Role.OPERATOR else frozenset()
        )


@dataclass(frozen=True, slots=True)
class Created:
    """A new credential. ``token`` is told here and never again; None for a certificate."""

    credential: Credential
    token: str | None = field(repr=False)


def expiry(now: datetime, days: int | None) -> datetime:
    """Return the instant ``days`` from now; no credential lasts for ever.

    Raises:
        InvalidInput: if that is in the past, or too far ahead.
    """
    length = DEFAULT_DAYS if days is None else days
    if not 0 < length <= MAX_LIFE.days:
        raise InvalidInput(f"a credential lasts for 1 to {MAX_LIFE.days} days, not {length}")
    return now + timedelta(days=length)


def create_credential(
    connection: Connection,
    name: str,
    role: Role,
    scope: Scope | None,
    expires_at: datetime,
    actor: str,
    now: datetime,
    *,
    subject: str | None = None,
    replaces: str | None = None,
    overlap: timedelta = timedelta(0),
) -> Created:
    """Create a token, or with ``subject`` the identity of a certificate; a cloud that is new is registered.

    ``replaces`` is the id of the credential whose place it takes: same name, role and scope. That one expires at now +
    ``overlap``, or is revoked at once where both have the same subject.

    Raises:
        InvalidInput: if the name, the scope, the subject, the expiry or the overlap makes no sense.
        NotFound: if there is no credential with the id ``replaces``.
        Refused: if the name is in use, the subject or the cloud is another's, or what is to be replaced differs, is
            revoked, or was replaced before.
    """
    _check(name, role, scope, subject, expires_at, now)
    if not timedelta(0) <= overlap <= MAX_OVERLAP:
        raise InvalidInput(f"an overlap is from 0 to {MAX_OVERLAP.days} days; {overlap} is not")
    secret = secrets.token_hex(32)
    credential = Credential(
        secrets.token_hex(8), name, role, scope, subject, now, actor, expires_at.astimezone(UTC), None, replaces
    )
    with connection.transaction():
        store.lock(connection)
        if scope is not None:
            register_cloud(connection, scope.platform, scope.cloud, actor)
        if replaces is not None:
            _replace(connection, replaces, credential, now + overlap, actor, now)
        _refuse_used_name(connection, credential, now)
        if subject is not None:
            _refuse_used_subject(connection, subject)
        store.add(connection, _row(credential), _hash(secret) if subject is None else None)
        audit.record(connection, actor, "credential.create", _address(credential), _detail(credential))
    return Created(credential, f"{TOKEN_PREFIX}{credential.id}_{secret}" if subject is None else None)


def list_credentials(connection: Connection) -> list[Credential]:
    """Return all credentials, revoked and expired ones too, in the order of their names and ages."""
    return [_credential(row) for row in store.credentials(connection)]


def revoke_credential(connection: Connection, credential_id: str, actor: str, now: datetime) -> Credential:
    """Revoke a credential for ever, from the next request on; again is nothing.

    Raises:
        NotFound: if there is none with this id.
    """
    with connection.transaction():
        store.lock(connection)
        credential = _found(connection, credential_id)
        if store.revoke(connection, credential.id, now):
            audit.record(connection, actor, "credential.revoke", _address(credential), {"id": credential.id})
    return _found(connection, credential_id)


def authenticate_token(connection: Connection, token: str, now: datetime) -> Principal | None:
    """Return whom a token belongs to; None if it is malformed, unknown, expired or revoked.

    It takes the same time whether the id or the secret is wrong, so that ids cannot be told by trying.
    """
    match = _TOKEN.fullmatch(token)
    if match is None:
        return None
    found = store.with_secret(connection, match["id"])
    same = hmac.compare_digest(_hash(match["secret"]), _NO_HASH if found is None else found[1])
    return _accepted(found[0], now) if found is not None and same else None


def authenticate_certificate(connection: Connection, subject: str, now: datetime) -> Principal | None:
    """Return whom a certificate's subject belongs to; None if it is unknown, expired or revoked.

    That the caller holds the certificate was verified by the proxy that passed the subject.
    """
    if not _is_text(subject, _MAX_SUBJECT_BYTES):
        return None
    row = store.of_subject(connection, subject)
    return None if row is None else _accepted(row, now)


def _accepted(row: store.CredentialRow, now: datetime) -> Principal | None:
    credential = _credential(row)
    return credential.principal if credential.status(now) is Status.ACTIVE else None


def _check(
    name: str, role: Role, scope: Scope | None, subject: str | None, expires_at: datetime, now: datetime
) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidInput(f"{name[:60]!r} is no name of a credential: up to 63 letters, digits, dots, dashes, _")
    if role not in ROLES:
        raise InvalidInput(f"a credential has the role {', '.join(ROLES)}; {role} comes from the OIDC issuer")
    if (role is Role.OPERATOR) != (scope is None):
        raise InvalidInput("a credential for ingest or sync names its platform and cloud, one for an operator neither")
    if subject is not None and not _is_text(subject, _MAX_SUBJECT_BYTES):
        raise InvalidInput(f"a subject is empty, longer than {_MAX_SUBJECT_BYTES} bytes or holds what no header can")
    if expires_at.tzinfo is None:
        raise InvalidInput("expires_at has no zone; write an instant such as 2027-01-01T00:00:00Z")
    if not now < expires_at <= now + MAX_LIFE:
        raise InvalidInput(
            f"{format_instant(expires_at)} is no expiry: it is in the past, or more than {MAX_LIFE.days} days ahead"
        )


def _is_text(text: str, most: int) -> bool:
    """Whether a text can stand in a header and in the database: printable, without blanks at its ends."""
    return text.isprintable() and text == text.strip() and 0 < len(text.encode("utf-8", "replace")) <= most


def _refuse_used_name(connection: Connection, new: Credential, now: datetime) -> None:
    """A name is one actor of the audit log: always the same role and scope, and one credential but for an overlap."""
    for other in map(_credential, store.named(connection, new.name)):
        if (other.role, other.scope) != (new.role, new.scope):
            raise Refused(f"credential {new.name}", [f"{other.id} has this name with another role or cloud"])
        if other.id == new.replaces or other.status(now) is not Status.ACTIVE:
            continue
        if store.replacement(connection, other.id) is None:
            raise Refused(f"credential {new.name}", [f"{other.id} has this name; replace it, or revoke it first"])


def _refuse_used_subject(connection: Connection, subject: str) -> None:
    other = store.of_subject(connection, subject)
    if other is not None:
        raise Refused(f"subject {subject}", [f"it is the identity {other.id} ({other.name}); revoke or replace that"])


def _replace(
    connection: Connection, replaced: str, new: Credential, until: datetime, actor: str, now: datetime
) -> None:
    old = _found(connection, replaced)
    reasons = []
    if (old.name, old.role, old.scope) != (new.name, new.role, new.scope):
        reasons.append("it has another name, role or cloud; a replacement has the same")
    if old.revoked_at is not None:
        reasons.append("it is revoked; create one that replaces nothing")
    if (other := store.replacement(connection, old.id)) is not None:
        reasons.append(f"{other.id} has replaced it; replace that")
    if reasons:
        raise Refused(f"credential {old.id}", reasons)
    if old.subject is not None and old.subject == new.subject:  # the same caller: nothing can overlap
        store.revoke(connection, old.id, now)
        detail: dict[str, object] = {"id": old.id, "replaced_by": new.id}
        audit.record(connection, actor, "credential.revoke", _address(old), detail)
        return
    ends = store.end(connection, old.id, until)
    detail = {"id": old.id, "replaced_by": new.id, "expires_at": format_instant(ends)}
    audit.record(connection, actor, "credential.expire", _address(old), detail)


def _found(connection: Connection, credential_id: str) -> Credential:
    row = store.credential(connection, credential_id) if credential_id.isprintable() else None
    if row is None:
        raise NotFound(f"credential {credential_id[:60]!r} does not exist; list the credentials to see their ids")
    return _credential(row)


def _address(credential: Credential) -> str:
    return f"{credential.name}/{credential.id}"


def _detail(credential: Credential) -> dict[str, object]:
    return {
        "id": credential.id,
        "role": credential.role.value,
        "platform": credential.scope.platform if credential.scope else None,
        "cloud": credential.scope.cloud if credential.scope else None,
        "subject": credential.subject,
        "expires_at": format_instant(credential.expires_at),
        "replaces": credential.replaces,
    }


def _hash(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _row(credential: Credential) -> store.CredentialRow:
    scope = credential.scope
    return store.CredentialRow(
        credential.id,
        credential.name,
        credential.role.value,
        "token" if credential.subject is None else "certificate",
        scope.platform if scope else None,
        scope.cloud if scope else None,
        credential.subject,
        credential.created_at,
        credential.created_by,
        credential.expires_at,
        credential.revoked_at,
        credential.replaces,
    )


def _credential(row: store.CredentialRow) -> Credential:
    scope = None if row.platform is None or row.cloud is None else Scope(row.platform, row.cloud)
    return Credential(
        row.id,
        row.name,
        Role(row.role),
        scope,
        row.subject,
        row.created_at,
        row.created_by,
        row.expires_at,
        row.revoked_at,
        row.replaces,
    )
