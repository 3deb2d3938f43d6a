"""JWTs: which are believed, and what their claims make of a caller. Attacks differ from a good token in one thing."""

import hashlib
import hmac
import json
import time
from collections.abc import Iterator
from typing import Any

import jwt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tally.api.auth.keys import Keys, fetch_from
from tally.api.auth.oidc import MAX_PROJECTS, MAX_TOKEN_CHARACTERS, ROLES, Oidc
from tally.api.problems import Problem
from tally.domain.errors import Unavailable
from tally.domain.principal import Principal, Role
from tests.issuer import AUDIENCE, Issuer, ec_key, public_pem, raw_token, rsa_key, running_issuer, segment

HOUR = 3600


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    """An issuer that no test of this module changes."""
    with running_issuer() as running:
        yield running


@pytest.fixture(scope="module")
def oidc(issuer: Issuer) -> Oidc:
    """What believes it."""
    return Oidc(issuer.url, AUDIENCE, Keys(fetch_from(issuer.url, "")))


def refused(oidc: Oidc, token: str) -> str:
    """Why a token is refused, which is never more than one line and never the token."""
    with pytest.raises(Problem) as caught:
        oidc.authenticate(token)
    assert caught.value.status == 401
    assert len(token) < 50 or token not in str(caught.value)
    return caught.value.detail


def signed(issuer: Issuer, claims: dict[str, Any]) -> str:
    """A token with exactly these claims."""
    return jwt.PyJWS().encode(json.dumps(claims).encode(), issuer.published["ec-1"], "ES256", {"kid": "ec-1"})


def hs256(header: dict[str, Any], claims: dict[str, Any], secret: bytes) -> str:
    """A token that is signed with a shared secret; PyJWT itself refuses to make one of a public key."""
    signed = f"{segment(json.dumps(header).encode())}.{segment(json.dumps(claims).encode())}"
    return f"{signed}.{segment(hmac.digest(secret, signed.encode(), hashlib.sha256))}"


@pytest.mark.parametrize("key_id", ["rsa-1", "ec-1"])
def test_a_token_of_the_issuer_tells_who_calls(oidc: Oidc, issuer: Issuer, key_id: str) -> None:
    """Without claims of Tally it is a consumer who sees nothing."""
    assert oidc.authenticate(issuer.token(key_id)) == Principal("oidc:alice", Role.CONSUMER, None, frozenset())


@pytest.mark.parametrize("role", [Role.OPERATOR, Role.READ_ALL])
def test_a_role_that_sees_everything_needs_no_projects(oidc: Oidc, issuer: Issuer, role: Role) -> None:
    """A list of projects does not narrow it."""
    principal = oidc.authenticate(issuer.token(tally_role=role.value, tally_projects=["os/p"]))
    assert principal == Principal("oidc:alice", role, None, None)


def test_a_consumer_sees_the_projects_of_its_claim(oidc: Oidc, issuer: Issuer) -> None:
    """Split at the first slash: ids may hold others."""
    token = issuer.token(tally_role="consumer", tally_projects=["os/p-1", "harbor/team/app", "os/p-1"])
    assert oidc.authenticate(token).projects == {("os", "p-1"), ("harbor", "team/app")}


def test_claims_can_have_other_names(issuer: Issuer) -> None:
    """Some issuers put a namespace before those of their customers."""
    oidc = Oidc(
        issuer.url, AUDIENCE, Keys(fetch_from(issuer.url, "")), ["RS256"], "https://x/role", "https://x/projects"
    )
    token = issuer.token(**{"https://x/role": "consumer", "https://x/projects": ["os/p"], "tally_role": "operator"})
    assert oidc.authenticate(token) == Principal("oidc:alice", Role.CONSUMER, None, frozenset({("os", "p")}))


def test_an_audience_may_be_one_of_several(oidc: Oidc, issuer: Issuer) -> None:
    """As issuers write it."""
    assert oidc.authenticate(issuer.token(aud=["other", AUDIENCE])).name == "oidc:alice"


def test_nbf_may_be_absent(oidc: Oidc, issuer: Issuer) -> None:
    """Common issuers leave it out."""
    assert oidc.authenticate(issuer.token(nbf=None)).name == "oidc:alice"


def test_clocks_may_differ_a_little(oidc: Oidc, issuer: Issuer) -> None:
    """By less than half a minute."""
    now = int(time.time())
    assert oidc.authenticate(issuer.token(iat=now + 15, nbf=now + 15)).name == "oidc:alice"
    assert oidc.authenticate(issuer.token(iat=now - HOUR, nbf=None, exp=now - 15)).name == "oidc:alice"


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"iss": "https://id.example.com"}, "another issuer"),
        ({"iss": ""}, "another issuer"),
        ({"iss": ["http://127.0.0.1"]}, "another issuer"),
        ({"iss": None}, "lacks one of the claims"),
        ({"aud": "other"}, "another audience"),
        ({"aud": []}, "lacks one of the claims"),
        ({"aud": "tally2"}, "another audience"),
        ({"aud": {"tally": 1}}, "another audience"),
        ({"aud": None}, "lacks one of the claims"),
        ({"sub": None}, "lacks one of the claims"),
        ({"sub": 7}, "malformed"),
        ({"sub": ""}, "the claim sub"),
        ({"sub": "a\n"}, "the claim sub"),
        ({"sub": "a\0"}, "the claim sub"),
        ({"sub": "a b"}, "the claim sub"),
        ({"sub": "x" * 256}, "the claim sub"),
        ({"exp": None}, "lacks one of the claims"),
        ({"exp": int(time.time()) - HOUR}, "has expired"),
        ({"exp": "soon"}, "malformed"),
        ({"exp": float("inf")}, "malformed"),
        ({"exp": float("nan")}, "malformed"),
        ({"exp": []}, "malformed"),
        ({"iat": None}, "lacks one of the claims"),
        ({"iat": int(time.time()) + HOUR}, "not valid yet"),
        ({"iat": "then"}, "malformed"),
        ({"nbf": int(time.time()) + HOUR}, "not valid yet"),
        ({"tally_role": "admin"}, "the claim tally_role is none of read_all, operator, consumer"),
        ({"tally_role": "ingest"}, "the claim tally_role"),
        ({"tally_role": "sync"}, "the claim tally_role"),
        ({"tally_role": "Operator"}, "the claim tally_role"),
        ({"tally_role": ["operator"]}, "the claim tally_role"),
        ({"tally_role": ""}, "the claim tally_role"),
        ({"tally_projects": "os/p"}, "the claim tally_projects is no list"),
        ({"tally_projects": {"os/p": 1}}, "the claim tally_projects is no list"),
        ({"tally_projects": ["os/p"] * (MAX_PROJECTS + 1)}, "the claim tally_projects is no list"),
        ({"tally_projects": ["p-1"]}, "not written cloud/project"),
        ({"tally_projects": ["/p-1"]}, "not written cloud/project"),
        ({"tally_projects": ["os/"]}, "not written cloud/project"),
        ({"tally_projects": ["os/p", 7]}, "not written cloud/project"),
        ({"tally_projects": ["os/p\0"]}, "not written cloud/project"),
        ({"tally_projects": ["os/" + "x" * 2000]}, "not written cloud/project"),
        ({"tally_projects": ["\ud800/p"]}, "not written cloud/project"),
    ],
)
def test_a_signed_token_with_another_claim_is_refused(
    oidc: Oidc, issuer: Issuer, changes: dict[str, Any], told: str
) -> None:
    """What was made for somebody else, is over, or cannot be understood whole."""
    with pytest.raises(Problem, match=told):
        oidc.authenticate(signed(issuer, issuer.claims(**changes)))


def test_a_null_role_is_no_absent_role(oidc: Oidc, issuer: Issuer) -> None:
    """It is not guessed what was meant."""
    assert "tally_role" in refused(oidc, signed(issuer, issuer.claims() | {"tally_role": None}))
    assert "tally_projects" in refused(oidc, signed(issuer, issuer.claims() | {"tally_projects": None}))


def test_an_unsigned_token_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    """However its algorithm is spelt."""
    payload = json.dumps(issuer.claims()).encode()
    for name in ("none", "None", "NONE", "nOnE", "", None, 0, [], {}, ["RS256"]):
        header = json.dumps({"alg": name, "kid": "rsa-1", "typ": "JWT"}).encode()
        assert refused(oidc, raw_token(header, payload)) == "the token is not signed by RS256 or ES256"
    assert refused(oidc, raw_token(b'{"kid":"rsa-1"}', payload)) == "the token is not signed by RS256 or ES256"


def test_the_public_key_is_no_shared_secret(oidc: Oidc, issuer: Issuer) -> None:
    """The classical confusion: HS256 with what everybody knows."""
    pem = public_pem(issuer.published["rsa-1"])
    for secret in (pem, pem.strip(), b"", json.dumps(issuer.jwk("rsa-1")).encode()):
        token = hs256({"alg": "HS256", "kid": "rsa-1"}, issuer.claims(), secret)
        assert refused(oidc, token) == "the token is not signed by RS256 or ES256"


def test_a_signature_of_another_key_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    """In the name of a known one, of the same kind or of the other."""
    assert "its signature is wrong" in refused(oidc, issuer.token("rsa-1", key=rsa_key()))
    assert "its signature is wrong" in refused(oidc, issuer.token("ec-1", key=ec_key()))
    assert "malformed" in refused(oidc, issuer.token("rsa-1", key=issuer.published["ec-1"]))
    assert "malformed" in refused(oidc, issuer.token("ec-1", key=issuer.published["rsa-1"]))


def test_a_changed_token_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    """Claims of one, signature of another; a signature that is empty, or of zeros."""
    first, second = issuer.token(sub="alice").split("."), issuer.token(sub="bob").split(".")
    assert "signature is wrong" in refused(oidc, ".".join((first[0], second[1], first[2])))
    assert "signature is wrong" in refused(oidc, ".".join((*first[:2], "")))
    zeros = issuer.token("ec-1").split(".")
    assert "signature is wrong" in refused(oidc, ".".join((*zeros[:2], segment(bytes(64)))))


def test_an_algorithm_that_is_not_pinned_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    """Even if the key could do it."""
    assert "not signed by" in refused(oidc, issuer.token("rsa-1", algorithm="RS512"))
    assert "not signed by" in refused(oidc, issuer.token("rsa-1", algorithm="PS256"))


def test_a_key_is_used_for_its_own_algorithm() -> None:
    """Where the issuer says which."""
    with running_issuer() as other:
        other.documents["/keys"] = {"keys": [{**other.jwk("rsa-1"), "alg": "PS256"}, other.jwk("ec-1")]}
        oidc = Oidc(other.url, AUDIENCE, Keys(fetch_from(other.url, "")), ["RS256", "PS256"])
        assert oidc.authenticate(other.token(algorithm="PS256")).name == "oidc:alice"
        assert "no key of the issuer" in refused(oidc, other.token(algorithm="RS256"))


def test_a_short_key_is_refused() -> None:
    """It can be factored."""
    with running_issuer() as other:
        other.publish("weak", rsa_key(1024))
        oidc = Oidc(other.url, AUDIENCE, Keys(fetch_from(other.url, "")))
        with pytest.warns(Warning, match="1024 bits"):
            token = other.token("weak")
        assert "malformed" in refused(oidc, token)


@pytest.mark.parametrize(
    "key_id", ["unknown", "../../../../dev/null", "/etc/passwd", "rsa-1\0", "' or 1=1 --", "RSA-1", "", "x" * 256]
)
def test_a_key_id_is_only_looked_up(oidc: Oidc, issuer: Issuer, key_id: str) -> None:
    """It names no file, no address and no query."""
    token = issuer.token(key_id, key=issuer.published["rsa-1"])
    assert "no key of the issuer" in refused(oidc, token)


@pytest.mark.parametrize("key_id", [b"7", b"[]", b"{}", b"true", b'"%s"' % (b"x" * 257), b"1e999"])
def test_a_key_id_is_a_short_text(oidc: Oidc, issuer: Issuer, key_id: bytes) -> None:
    """Anything else is no key id."""
    token = raw_token(b'{"alg":"RS256","kid":%s}' % key_id, json.dumps(issuer.claims()).encode())
    assert refused(oidc, token)


def test_a_header_cannot_bring_its_own_key(oidc: Oidc, issuer: Issuer) -> None:
    """Neither in it, nor at an address that it names: nothing is asked there."""
    own = rsa_key()
    with running_issuer() as evil:
        evil.publish("rsa-1", own)
        header = {"jwk": evil.jwk("rsa-1"), "jku": f"{evil.url}/keys", "x5u": f"{evil.url}/x", "x5c": ["AA=="]}
        assert "its signature is wrong" in refused(oidc, issuer.token("rsa-1", key=own, header=header))
        assert evil.asked == []


def test_a_critical_extension_that_is_not_known_is_refused(oidc: Oidc, issuer: Issuer) -> None:
    """RFC 7515, 4.1.11."""
    assert refused(oidc, issuer.token(header={"crit": ["exp"], "exp": 1}))


def test_an_oversized_token_is_refused_unread(oidc: Oidc, issuer: Issuer) -> None:
    """Before anything of it is decoded."""
    token = issuer.token(padding="x" * MAX_TOKEN_CHARACTERS)
    assert refused(oidc, token) == f"the token is longer than {MAX_TOKEN_CHARACTERS} characters"


@pytest.mark.parametrize(
    "token",
    [
        "",
        ".",
        "..",
        "...",
        "a.b.c",
        "tally",
        "\N{SNOWMAN}",
        "\ud800",
        raw_token(b"", b""),
        raw_token(b"null", b"{}"),
        raw_token(b"[]", b"{}"),
        raw_token(b'"RS256"', b"{}"),
        raw_token(b"[" * 6000, b"{}"),
        raw_token(b'{"alg":' + b"[" * 6000, b"{}"),
        raw_token(b'{"alg":"RS256","kid":"rsa-1","x":' + b"9" * 6000 + b"}", b"{}"),
        raw_token(b'{"alg":"RS256","kid":"rsa-1"}', b"[" * 6000),
        raw_token(b'{"alg":"RS256","kid":"rsa-1"}', b"\xff"),
        raw_token(b'{"alg":"ES256","kid":"ec-1"}', b"{}", b"short"),
        raw_token(b'{"alg":"RS256","kid":"rsa-1","b64":false,"crit":["b64"]}', b"{}"),
        raw_token(b'{"alg":"RS256","kid":"rsa-1","crit":[{}]}', b"{}"),
        raw_token(b'{"alg":"RS256","kid":"rsa-1","crit":7}', b"{}"),
    ],
)
def test_what_is_no_token_is_refused(oidc: Oidc, token: str) -> None:
    """A bomb is no error of the server."""
    assert refused(oidc, token)


@given(st.binary(max_size=80), st.binary(max_size=80), st.binary(max_size=80))
def test_nothing_that_can_be_sent_breaks_it(header: bytes, payload: bytes, signature: bytes) -> None:
    """Whatever the parts are, the answer is 401."""
    oidc = Oidc("https://id.example.com", AUDIENCE, Keys(lambda: {"keys": []}))
    assert refused(oidc, raw_token(header, payload, signature))


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


_CLAIMS = st.sampled_from(["iss", "aud", "sub", "exp", "iat", "nbf", "tally_role", "tally_projects"])


@given(claims=st.dictionaries(_CLAIMS, _JSON))
def test_no_claims_of_the_issuer_break_it(oidc: Oidc, issuer: Issuer, claims: dict[str, Any]) -> None:
    """A signed token is a caller or a 401."""
    token = signed(issuer, issuer.claims() | claims)
    try:
        principal = oidc.authenticate(token)
    except Problem:
        assert refused(oidc, token)
    else:
        assert principal.role in ROLES


def test_an_issuer_that_does_not_answer_is_no_refusal() -> None:
    """The caller may come again."""
    with running_issuer() as issuer:
        token = issuer.token()
        issuer.down = True
        with pytest.raises(Unavailable):
            Oidc(issuer.url, AUDIENCE, Keys(fetch_from(issuer.url, ""))).authenticate(token)


def test_garbage_does_not_reach_the_issuer(issuer: Issuer) -> None:
    """Only a token of a pinned algorithm makes anybody ask for keys."""
    del issuer.asked[:]
    oidc = Oidc(issuer.url, AUDIENCE, Keys(fetch_from(issuer.url, "")))
    for token in ("a.b.c", raw_token(b'{"alg":"none"}', b"{}"), "x" * (MAX_TOKEN_CHARACTERS + 1)):
        refused(oidc, token)
    assert issuer.asked == []


def test_keys_and_tokens_stay_out_of_repr(oidc: Oidc, issuer: Issuer, caplog: pytest.LogCaptureFixture) -> None:
    """And out of the log."""
    caplog.set_level("DEBUG")
    token = issuer.token()
    oidc.authenticate(token)
    assert token not in f"{oidc!r}{caplog.text}"
