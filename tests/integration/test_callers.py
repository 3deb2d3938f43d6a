"""How a request proves who sends it: which header is believed, from whom, and what is refused rather than guessed."""

import http.client
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from ipaddress import ip_network
from pathlib import Path

import pytest
from starlette.datastructures import Headers

from tally.api.auth.authenticator import CallerCheck, caller_check
from tally.api.problems import Problem
from tally.domain.errors import Unavailable
from tally.domain.principal import Principal, Role, Scope
from tally.services.credentials import create_credential, revoke_credential
from tally.settings import Settings
from tally.store.database import Connection
from tests.integration.api_server import NOW, live_api
from tests.issuer import AUDIENCE, Issuer, running_issuer

EU1 = Scope("openstack", "os-prod-eu1")
SUBJECT = "CN=collector-eu1,O=Example"
CERTIFICATE = "X-Client-Certificate-Subject"
PROXY, STRANGER = "10.0.0.7", "192.0.2.1"
BY_TOKEN = Principal("token:collector-eu1", Role.INGEST, EU1, frozenset())
BY_CERTIFICATE = Principal("certificate:by-certificate", Role.INGEST, EU1, frozenset())

Ask = Callable[..., Principal | None]


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """An issuer that no test of this module changes."""
    with running_issuer() as running:
        yield running


@pytest.fixture
def check(issuer: Issuer) -> CallerCheck:
    """The check of an installation with an issuer and a proxy, at the instant NOW."""
    settings = Settings(
        home=Path("/nowhere"),
        oidc_issuer=issuer.url,
        oidc_audience=AUDIENCE,
        trusted_proxies=(ip_network("10.0.0.0/24"), ip_network("fd00::/64")),
    )
    return caller_check(settings, lambda: NOW)


@pytest.fixture
def token(reporting: Connection) -> str:
    """A token of the collector of os-prod-eu1."""
    created = create_credential(reporting, "collector-eu1", Role.INGEST, EU1, NOW + timedelta(days=1), "test", NOW)
    assert created.token is not None
    return created.token


@pytest.fixture(autouse=True)
def by_certificate(reporting: Connection) -> None:
    """A collector that proves itself by its certificate."""
    end = NOW + timedelta(days=1)
    create_credential(reporting, "by-certificate", Role.INGEST, EU1, end, "test", NOW, subject=SUBJECT)


@pytest.fixture
def ask(check: CallerCheck, reporting: Connection) -> Ask:
    """Ask who sends a request with these headers from an address."""

    def connect() -> AbstractContextManager[Connection]:
        return nullcontext(reporting)

    def asked(*headers: tuple[str, str], peer: str = STRANGER) -> Principal | None:
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in headers]
        return check.authenticate(Headers(raw=raw), peer, connect)

    return asked


def test_a_request_without_proof_is_nobody(ask: Ask) -> None:
    """Whether that will do is for the contract to say."""
    assert ask() is None
    assert ask(peer=PROXY) is None


def test_tokens_are_told_apart_by_how_they_begin(ask: Ask, token: str, issuer: Issuer) -> None:
    """Those of Tally, and those of the issuer."""
    assert ask(("Authorization", f"Bearer {token}")) == BY_TOKEN
    jwt = issuer.token(tally_projects=["os/p"])
    consumer = Principal("oidc:alice", Role.CONSUMER, None, frozenset({("os", "p")}))
    assert ask(("Authorization", f"Bearer {jwt}")) == consumer


@pytest.mark.parametrize("scheme", ["bearer ", "BEARER ", "Bearer  "])
def test_the_name_of_the_scheme_has_no_case(ask: Ask, token: str, scheme: str) -> None:
    """RFC 9110, 11.1: and blanks may follow it."""
    assert ask(("authorization", f"{scheme}{token}")) == BY_TOKEN


@pytest.mark.parametrize(
    "write",
    [
        "{token}".format,
        "Bearer".format,
        "Bearer ".format,
        "Bearer{token}".format,
        "Bearer\t{token}".format,
        " Bearer {token}".format,
        "Bearer {token} ".format,
        "Bearer {token}, Bearer {token}".format,
        "Bearer {token} {token}".format,
        "Bearer Bearer {token}".format,
        'Bearer "{token}"'.format,
        "Bearer {token}\u00a0".format,
        "Bearer \u00e4".format,
        "Bearer token={token}".format,
        "Basic dGFsbHk6aHVudGVyMg==".format,
        "Digest username={token}".format,
        "".format,
    ],
)
def test_a_header_that_is_written_otherwise_is_refused(ask: Ask, token: str, write: Callable[..., str]) -> None:
    """It is not guessed what was meant, and never told back."""
    with pytest.raises(Problem, match="is not written: Bearer <token>") as caught:
        ask(("Authorization", write(token=token)))
    assert caught.value.status == 401
    assert token not in str(caught.value)


@pytest.mark.parametrize(
    "change",
    [str.upper, lambda text: text[:-1], lambda text: f"{text}=", lambda text: text.replace("tally_", "Tally_")],
)
def test_a_token_is_one_text(ask: Ask, token: str, change: Callable[[str], str]) -> None:
    """In another case it is none, and its secret is not tried as a JWT either."""
    with pytest.raises(Problem) as caught:
        ask(("Authorization", f"Bearer {change(token)}"))
    assert caught.value.status == 401


def test_two_headers_are_refused(ask: Ask, token: str) -> None:
    """A proxy might have judged the one, and Tally the other."""
    header = ("Authorization", f"Bearer {token}")
    for headers in ([header, header], [header, ("Authorization", "")], [("Authorization", "Basic x"), header]):
        with pytest.raises(Problem, match="several Authorization headers"):
            ask(*headers)
    with pytest.raises(Problem, match=f"several {CERTIFICATE} headers"):
        ask((CERTIFICATE, SUBJECT), (CERTIFICATE, SUBJECT), peer=PROXY)
    with pytest.raises(Problem, match=f"several {CERTIFICATE} headers"):
        ask((CERTIFICATE, ""), (CERTIFICATE, SUBJECT), peer=PROXY)


@pytest.mark.parametrize("peer", [PROXY, "10.0.0.255", "fd00::1", "::ffff:10.0.0.7"])
def test_a_certificate_is_believed_from_a_trusted_proxy(ask: Ask, peer: str) -> None:
    """Also where a socket for both families shows an IPv4 address as an IPv6 one."""
    assert ask((CERTIFICATE, SUBJECT), peer=peer) == BY_CERTIFICATE
    assert ask((CERTIFICATE.upper(), SUBJECT), peer=peer) == BY_CERTIFICATE


@pytest.mark.parametrize(
    "peer", [STRANGER, "10.0.1.7", "127.0.0.1", "::1", "fd00:0:0:1::1", "::ffff:192.0.2.1", "", "unix:", "proxy"]
)
def test_a_certificate_of_anybody_else_is_ignored(ask: Ask, peer: str) -> None:
    """Whatever it says, and whatever else is said of where it comes from."""
    forwarded = ("X-Forwarded-For", PROXY), ("Forwarded", f"for={PROXY}"), ("X-Real-IP", PROXY)
    assert ask((CERTIFICATE, SUBJECT), *forwarded, peer=peer) is None
    assert ask((CERTIFICATE, SUBJECT), (CERTIFICATE, SUBJECT), peer=peer) is None


@pytest.mark.parametrize("subject", ["CN=collector-eu1", SUBJECT.lower(), f"{SUBJECT},{SUBJECT}", "\xff", "-"])
def test_a_subject_that_nobody_has_is_refused(ask: Ask, subject: str) -> None:
    """The proxy verified a certificate, but of somebody that Tally does not know."""
    with pytest.raises(Problem) as caught:
        ask((CERTIFICATE, subject), peer=PROXY)
    assert caught.value.status == 401


def test_an_empty_subject_is_no_certificate(ask: Ask) -> None:
    """Proxies write it where a client has none."""
    assert ask((CERTIFICATE, ""), peer=PROXY) is None


def test_a_bearer_token_decides_alone(ask: Ask, token: str) -> None:
    """A bad one is not made good by a certificate: it would do more, or other things, than the caller meant."""
    certificate = (CERTIFICATE, SUBJECT)
    assert ask(("Authorization", f"Bearer {token}"), certificate, peer=PROXY) == BY_TOKEN
    with pytest.raises(Problem):
        ask(("Authorization", f"Bearer {token[:-1]}"), certificate, peer=PROXY)


def test_a_revocation_holds_for_the_next_request(ask: Ask, token: str, reporting: Connection) -> None:
    """Nothing is remembered."""
    header = ("Authorization", f"Bearer {token}")
    assert ask(header) == BY_TOKEN
    revoke_credential(reporting, token.split("_")[1], "test", NOW)
    with pytest.raises(Problem, match="not known, has expired, or was revoked"):
        ask(header)


def test_without_an_issuer_only_tokens_of_tally_are_known(check: CallerCheck, issuer: Issuer) -> None:
    """And no key is asked for."""
    check = replace(check, oidc=None)
    headers = Headers({"Authorization": f"Bearer {issuer.token()}"})
    with pytest.raises(Problem, match="no OIDC issuer is configured"):
        check.authenticate(headers, STRANGER, _no_database)


def test_a_jwt_needs_no_database_and_a_token_no_issuer(token: str, reporting: Connection) -> None:
    """What fails is only what is needed."""
    with running_issuer() as down:
        down.down = True
        settings = Settings(home=Path("/nowhere"), oidc_issuer=down.url, oidc_audience=AUDIENCE)
        check = caller_check(settings, lambda: NOW)
        header = Headers({"Authorization": f"Bearer {token}"})
        assert check.authenticate(header, STRANGER, lambda: nullcontext(reporting)) == BY_TOKEN
        with pytest.raises(Unavailable):
            check.authenticate(Headers({"Authorization": f"Bearer {down.token()}"}), STRANGER, _no_database)


def _no_database() -> AbstractContextManager[Connection]:
    raise AssertionError("the database is asked")


def send(url: str, headers: list[tuple[str, str]]) -> tuple[int, dict[str, str], str]:
    """Send an empty batch with headers that no client would write."""
    connection = http.client.HTTPConnection(url.removeprefix("http://"), timeout=60)
    connection.putrequest("POST", "/api/v1/events")
    for header in [*headers, ("Content-Type", "application/json"), ("Content-Length", "2")]:
        connection.putheader(*header)
    connection.endheaders(b"[]")
    answer = connection.getresponse()
    body = answer.read().decode()
    connection.close()
    return answer.status, dict(answer.getheaders()), body


def test_a_server_answers_with_what_is_wrong(
    reporting_url: str, metering_url: str, check: CallerCheck, token: str, caplog: pytest.LogCaptureFixture
) -> None:
    """401 with the scheme to use; two headers stay two on their way; neither answer nor log holds a token."""
    caplog.set_level("DEBUG")
    good: tuple[str, str] = ("Authorization", f"Bearer {token}")
    cases: list[tuple[list[tuple[str, str]], int]] = [
        ([], 401),
        ([good], 200),
        ([good, good], 401),
        ([("Authorization", f"Bearer {token[:-1]}")], 401),
        ([("Authorization", f"Basic {token}")], 401),
        ([(CERTIFICATE, SUBJECT)], 401),
        ([(CERTIFICATE, SUBJECT), ("X-Forwarded-For", PROXY)], 401),
    ]
    with live_api(reporting_url, metering_url, authenticator=check) as api:
        for headers, expected in cases:
            status, answered, body = send(api.url, headers)
            assert status == expected, (headers, body)
            assert token[:-1] not in body
            assert (answered.get("www-authenticate") == 'Bearer realm="tally"') is (expected == 401)
    assert token.rpartition("_")[2][:-1] not in caplog.text


def test_a_server_behind_a_proxy_believes_its_header(reporting_url: str, metering_url: str, check: CallerCheck) -> None:
    """The address of the connection is the proxy's."""
    behind = replace(check, trusted_proxies=(ip_network("127.0.0.1/32"),))
    with live_api(reporting_url, metering_url, authenticator=behind) as api:
        assert send(api.url, [(CERTIFICATE, SUBJECT)])[0] == 200
        assert send(api.url, [(CERTIFICATE, SUBJECT), (CERTIFICATE, SUBJECT)])[0] == 401
