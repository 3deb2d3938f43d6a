"""Credentials: told once, hashed at rest, bound to one cloud, rotated with overlap, revoked at once, audited."""

import hashlib
import logging
from datetime import timedelta
from typing import Any

import psycopg
import pytest

from tally.domain.errors import InvalidInput, NotFound, Refused
from tally.domain.instants import parse_instant
from tally.domain.principal import Principal, Role, Scope
from tally.services.credentials import (
    MAX_LIFE,
    Created,
    Status,
    authenticate_certificate,
    authenticate_token,
    create_credential,
    list_credentials,
    revoke_credential,
)
from tally.store.database import Connection
from tests.integration.sending import count

NOW = parse_instant("2026-06-01T00:00:00Z")
DAY = timedelta(days=1)
EU1 = Scope("openstack", "os-prod-eu1")
EU2 = Scope("openstack", "os-prod-eu2")
SUBJECT = "CN=collector-eu1,OU=metering,O=Example"


def create(reporting: Connection, name: str = "collector-eu1", **changes: Any) -> Created:
    """Create a token for the ingest of os-prod-eu1 that lasts thirty days."""
    fields = {"role": Role.INGEST, "scope": EU1, "expires_at": NOW + 30 * DAY, "actor": "alice", "now": NOW}
    return create_credential(reporting, name, **fields | changes)


def token(created: Created) -> str:
    assert created.token is not None
    return created.token


def audited(reporting: Connection) -> list[tuple[Any, ...]]:
    rows = reporting.execute(
        "select actor, action, subject from reporting.audit_log where action like 'credential.%' order by id"
    )
    return rows.fetchall()


def test_a_token_tells_who_calls_and_for_which_cloud(reporting: Connection) -> None:
    """It sees nothing: a collector only writes."""
    made = create(reporting)
    principal = authenticate_token(reporting, token(made), NOW)
    assert principal == Principal("token:collector-eu1", Role.INGEST, EU1, frozenset())
    assert not principal.sees("os-prod-eu1", "p-1")


def test_an_operator_sees_everything(reporting: Connection) -> None:
    """It is bound to no cloud."""
    made = create(reporting, "admin", role=Role.OPERATOR, scope=None)
    assert authenticate_token(reporting, token(made), NOW) == Principal("token:admin", Role.OPERATOR)


def test_a_certificate_is_known_by_its_whole_subject(reporting: Connection) -> None:
    """No part of it, no other case, nothing around it."""
    made = create(reporting, subject=SUBJECT)
    assert made.token is None
    expected = Principal("certificate:collector-eu1", Role.INGEST, EU1, frozenset())
    assert authenticate_certificate(reporting, SUBJECT, NOW) == expected
    for other in ("", "CN=collector-eu1", SUBJECT.lower(), f"{SUBJECT} ", f"{SUBJECT}\0", f"{SUBJECT},C=DE", "\ud800"):
        assert authenticate_certificate(reporting, other, NOW) is None


def test_the_secret_is_nowhere_but_in_the_token(reporting: Connection, caplog: pytest.LogCaptureFixture) -> None:
    """Neither in the database, nor in the audit log, nor in a repr, nor in a log."""
    caplog.set_level(logging.DEBUG)
    made = create(reporting)
    secret = token(made).rpartition("_")[2]
    authenticate_token(reporting, token(made), NOW)
    stored = reporting.execute("select to_jsonb(c)::text from reporting.credentials as c").fetchall()
    logged = reporting.execute("select to_jsonb(a)::text from reporting.audit_log as a").fetchall()
    listed = list_credentials(reporting)
    assert secret not in f"{stored}{logged}{made!r}{made!s}{listed!r}{caplog.text}"
    assert hashlib.sha256(secret.encode()).hexdigest() in str(stored)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text[:-1] + ("0" if text[-1] != "0" else "1"),
        lambda text: text.upper(),
        lambda text: f"{text} ",
        lambda text: f"{text}\n",
        lambda text: text[:-1],
        lambda text: text + "0",
        lambda text: text.replace("tally_", ""),
        lambda text: f"tally_{'0' * 16}_{text[-64:]}",
        lambda text: f"{text[:23]}{'0' * 64}",
        lambda text: f"{text[:23]}{hashlib.sha256(text[-64:].encode()).hexdigest()}",
        lambda text: f"{text[:-1]}\N{FULLWIDTH DIGIT ONE}",
        lambda _: "",
        lambda _: "tally_",
        lambda _: "tally_' or true --",
    ],
)
def test_another_text_than_the_token_is_nobody(reporting: Connection, change: Any) -> None:
    """A wrong secret of a known id, a known secret of another id, its hash, and what looks alike."""
    made = token(create(reporting))
    assert authenticate_token(reporting, made, NOW) is not None
    assert authenticate_token(reporting, change(made), NOW) is None


def test_a_certificate_identity_takes_no_token(reporting: Connection) -> None:
    """It has no secret: none can be right."""
    made = create(reporting, subject=SUBJECT)
    assert authenticate_token(reporting, f"tally_{made.credential.id}_{'0' * 64}", NOW) is None


def test_a_credential_ends_at_its_expiry(reporting: Connection) -> None:
    """To the microsecond, exclusive."""
    made = token(create(reporting, expires_at=NOW + DAY))
    create(reporting, "by-certificate", subject=SUBJECT, expires_at=NOW + DAY)
    before = NOW + DAY - timedelta(microseconds=1)
    assert authenticate_token(reporting, made, before) is not None
    assert authenticate_certificate(reporting, SUBJECT, before) is not None
    assert authenticate_token(reporting, made, NOW + DAY) is None
    assert authenticate_certificate(reporting, SUBJECT, NOW + DAY) is None
    assert {credential.status(NOW + DAY) for credential in list_credentials(reporting)} == {Status.EXPIRED}


def test_a_revoked_credential_is_nobody_at_once(reporting: Connection) -> None:
    """Revoking again changes nothing and is not audited."""
    made = create(reporting)
    revoked = revoke_credential(reporting, made.credential.id, "bob", NOW + DAY)
    assert revoked.status(NOW) is Status.REVOKED
    assert revoke_credential(reporting, made.credential.id, "carol", NOW + 2 * DAY) == revoked
    assert authenticate_token(reporting, token(made), NOW) is None
    subject = f"collector-eu1/{made.credential.id}"
    assert audited(reporting) == [("alice", "credential.create", subject), ("bob", "credential.revoke", subject)]


def test_a_revoked_certificate_is_nobody(reporting: Connection) -> None:
    """Its subject may then be given to another credential."""
    made = create(reporting, subject=SUBJECT)
    revoke_credential(reporting, made.credential.id, "bob", NOW)
    assert authenticate_certificate(reporting, SUBJECT, NOW) is None
    create(reporting, "other", scope=EU2, subject=SUBJECT)
    principal = authenticate_certificate(reporting, SUBJECT, NOW)
    assert principal is not None
    assert principal.scope == EU2


def test_rotation_overlaps(reporting: Connection) -> None:
    """Both are accepted until the overlap ends, then only the new one; it is one actor for the audit log."""
    old = create(reporting)
    new = create(reporting, replaces=old.credential.id, overlap=DAY)
    assert authenticate_token(reporting, token(old), NOW) == authenticate_token(reporting, token(new), NOW)
    assert authenticate_token(reporting, token(old), NOW + DAY) is None
    assert authenticate_token(reporting, token(new), NOW + DAY) is not None
    assert [action for _, action, _ in audited(reporting)] == [
        "credential.create",
        "credential.expire",
        "credential.create",
    ]


def test_rotation_never_lengthens_a_life(reporting: Connection) -> None:
    """An overlap beyond the old expiry leaves that as it was; an overlap of nothing ends it now."""
    first = create(reporting, expires_at=NOW + timedelta(hours=1))
    second = create(reporting, replaces=first.credential.id, overlap=DAY)
    assert authenticate_token(reporting, token(first), NOW + timedelta(hours=1)) is None
    create(reporting, replaces=second.credential.id)
    assert authenticate_token(reporting, token(second), NOW) is None


def test_a_chain_of_rotations_can_overlap(reporting: Connection) -> None:
    """Also while the first one still runs out; but one credential is replaced once."""
    first = create(reporting)
    second = create(reporting, replaces=first.credential.id, overlap=DAY)
    third = create(reporting, replaces=second.credential.id, overlap=DAY)
    assert all(authenticate_token(reporting, token(made), NOW) for made in (first, second, third))
    with pytest.raises(Refused, match=f"{second.credential.id} has replaced it"):
        create(reporting, replaces=first.credential.id)


def test_a_certificate_of_the_same_subject_is_replaced_at_once(reporting: Connection) -> None:
    """It is the same caller, with a later expiry."""
    old = create(reporting, subject=SUBJECT)
    create(reporting, subject=SUBJECT, replaces=old.credential.id, overlap=DAY, expires_at=NOW + 60 * DAY)
    assert authenticate_certificate(reporting, SUBJECT, NOW + 59 * DAY) is not None
    assert [row.status(NOW) for row in list_credentials(reporting)].count(Status.ACTIVE) == 1


def test_a_caller_moves_from_token_to_certificate(reporting: Connection) -> None:
    """The proof may change; what it is for stays."""
    old = create(reporting)
    create(reporting, subject=SUBJECT, replaces=old.credential.id, overlap=DAY)
    assert authenticate_token(reporting, token(old), NOW) is not None
    assert authenticate_certificate(reporting, SUBJECT, NOW) is not None


@pytest.mark.parametrize(
    "change", [{"name": "other"}, {"scope": EU2}, {"role": Role.SYNC}, {"role": Role.OPERATOR, "scope": None}]
)
def test_a_replacement_can_do_what_the_replaced_one_could(reporting: Connection, change: dict[str, Any]) -> None:
    """Rotation changes the secret alone; nothing of a refused one is stored."""
    old = create(reporting)
    with pytest.raises(Refused, match="another"):
        create(reporting, replaces=old.credential.id, **change)
    assert list_credentials(reporting) == [old.credential]


def test_what_is_revoked_or_unknown_cannot_be_replaced(reporting: Connection) -> None:
    """A revoked one gives nothing to take over; an expired one may be late."""
    old = create(reporting)
    late = create(reporting, replaces=old.credential.id, now=NOW + 31 * DAY, expires_at=NOW + 60 * DAY)
    assert authenticate_token(reporting, token(old), NOW + 31 * DAY) is None
    revoke_credential(reporting, late.credential.id, "bob", NOW + 31 * DAY)
    with pytest.raises(Refused, match="it is revoked"):
        create(reporting, replaces=late.credential.id)
    for unknown in ("0" * 16, "", "\0", "\ud800"):
        with pytest.raises(NotFound, match="list the credentials"):
            create(reporting, replaces=unknown)
        with pytest.raises(NotFound):
            revoke_credential(reporting, unknown, "bob", NOW)


def test_a_name_is_one_actor(reporting: Connection) -> None:
    """Two live credentials of one name are a rotation; its role and cloud never change."""
    first = create(reporting)
    with pytest.raises(Refused, match=f"{first.credential.id} has this name; replace it, or revoke it first"):
        create(reporting)
    revoke_credential(reporting, first.credential.id, "bob", NOW)
    with pytest.raises(Refused, match="with another role or cloud"):
        create(reporting, scope=EU2)
    create(reporting)


def test_a_subject_is_one_identity(reporting: Connection) -> None:
    """Even an expired one stands in the way until it is replaced or revoked."""
    first = create(reporting, subject=SUBJECT, expires_at=NOW + DAY)
    with pytest.raises(Refused, match=f"it is the identity {first.credential.id}"):
        create(reporting, "other", subject=SUBJECT, now=NOW + 2 * DAY)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"name": ""}, "no name"),
        ({"name": "a b"}, "no name"),
        ({"name": "a\n"}, "no name"),
        ({"name": "x" * 64}, "no name"),
        ({"role": Role.READ_ALL}, "comes from the OIDC issuer"),
        ({"role": Role.CONSUMER, "scope": None}, "comes from the OIDC issuer"),
        ({"scope": None}, "names its platform and cloud"),
        ({"role": Role.SYNC, "scope": None}, "names its platform and cloud"),
        ({"role": Role.OPERATOR}, "an operator neither"),
        ({"scope": Scope("openstak", "os")}, "not a platform"),
        ({"scope": Scope("openstack", "")}, "cloud '' is empty"),
        ({"scope": Scope("openstack", "a\0")}, "cloud .* holds"),
        ({"scope": Scope("openstack", "x" * 600)}, "longer than"),
        ({"scope": Scope("openstack", "os/eu1")}, "holds a slash"),
        ({"subject": ""}, "a subject is empty"),
        ({"subject": "CN=a\r\nX: y"}, "a subject is empty"),
        ({"subject": "x" * 1025}, "a subject is empty"),
        ({"expires_at": NOW}, "in the past"),
        ({"expires_at": NOW + MAX_LIFE + DAY}, "days ahead"),
        ({"expires_at": NOW.replace(tzinfo=None)}, "no zone"),
        ({"overlap": -DAY}, "an overlap is from 0"),
        ({"overlap": 32 * DAY}, "an overlap is from 0"),
    ],
)
def test_what_makes_no_sense_is_refused(reporting: Connection, change: dict[str, Any], told: str) -> None:
    """With a word on what would; nothing is stored, and no cloud is claimed."""
    with pytest.raises(InvalidInput, match=told):
        create(reporting, **change)
    assert (count(reporting, "credentials"), count(reporting, "clouds")) == (0, 0)


def test_a_cloud_of_another_platform_is_refused(reporting: Connection) -> None:
    """Rule 1: a new cloud is registered with its credential, and keeps its platform."""
    create(reporting)
    with pytest.raises(Refused, match="it belongs to the platform openstack, not to hetzner"):
        create(reporting, "other", scope=Scope("hetzner", "os-prod-eu1"))
    assert reporting.execute("select cloud, platform from reporting.clouds").fetchall() == [
        ("os-prod-eu1", "openstack")
    ]


@pytest.mark.parametrize(
    "statement",
    [
        "delete from reporting.credentials",
        "truncate reporting.credentials cascade",
        "update reporting.credentials set expires_at = expires_at + interval '1 day'",
        "update reporting.credentials set cloud = 'os-prod-eu2'",
        "update reporting.credentials set role = 'sync'",
        "update reporting.credentials set secret_hash = sha256('mine')",
        "update reporting.credentials set revoked_at = null where revoked_at is not null",
        "update reporting.credentials set revoked_at = revoked_at + interval '1 day' where revoked_at is not null",
    ],
)
def test_the_database_lets_a_credential_only_become_weaker(reporting: Connection, statement: str) -> None:
    """No ordinary statement deletes one, revives one or changes what it is for."""
    create(reporting)
    create(reporting, "in-eu2", scope=EU2)
    gone = create(reporting, "gone")
    revoke_credential(reporting, gone.credential.id, "bob", NOW)
    with pytest.raises(psycopg.Error) as refusal:
        reporting.execute(statement.encode())
    assert refusal.value.sqlstate == "TA001"


@pytest.mark.parametrize(
    ("changes", "constraint"),
    [
        ({"cloud": None, "platform": None}, "credentials_scope"),
        ({"role": "operator"}, "credentials_scope"),
        ({"platform": None}, "credentials_scope"),
        ({"platform": "hetzner"}, "credentials_cloud_platform_fkey"),
        ({"secret_hash": None}, "credentials_proof"),
        ({"subject": SUBJECT}, "credentials_proof"),
        ({"kind": "certificate"}, "credentials_proof"),
        ({"secret_hash": b"short"}, "credentials_secret_hash_check"),
        ({"role": "read_all"}, "credentials_role_check"),
        ({"id": "ABC"}, "credentials_id_check"),
        ({"name": "a b"}, "credentials_name_check"),
        ({"expires_at": NOW - DAY}, "credentials_check"),
        ({"replaces": "f" * 16}, "credentials_replace_another"),
        ({"replaces": "0" * 16}, "credentials_replaces_fkey"),
    ],
)
def test_the_database_refuses_nonsense(reporting: Connection, changes: dict[str, Any], constraint: str) -> None:
    """Whoever writes it."""
    reporting.execute("insert into reporting.clouds (cloud, platform) values ('os', 'openstack')")
    row: dict[str, Any] = {
        "id": "f" * 16,
        "name": "collector",
        "role": "ingest",
        "kind": "token",
        "platform": "openstack",
        "cloud": "os",
        "secret_hash": bytes(32),
        "subject": None,
        "created_at": NOW,
        "created_by": "alice",
        "expires_at": NOW + DAY,
        "replaces": None,
    }

    def insert(values: dict[str, Any]) -> None:
        columns, places = ", ".join(values), ", ".join(["%s"] * len(values))
        statement = f"insert into reporting.credentials ({columns}) values ({places})"
        reporting.execute(statement.encode(), list(values.values()))

    with pytest.raises(psycopg.IntegrityError) as refusal:
        insert(row | changes)
    assert refusal.value.diag.constraint_name == constraint
    insert(row)
