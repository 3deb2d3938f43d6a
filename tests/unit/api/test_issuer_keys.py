"""Keys of the issuer: fetched once, again when they change, never at the pace of whoever invents key ids."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tally.api.auth.keys import FRESH, MAX_DOCUMENT_BYTES, MAX_WAITING, PAUSE, STALE, Keys, fetch_from
from tally.domain.errors import Unavailable
from tests.issuer import Issuer, ec_key, rsa_key, running_issuer


class Clock:
    """Monotonic seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> Clock:
    """A clock that stands still."""
    return Clock()


@pytest.fixture
def issuer() -> Iterator[Issuer]:
    """An issuer of its own."""
    with running_issuer() as running:
        yield running


@pytest.fixture
def keys(issuer: Issuer, clock: Clock) -> Keys:
    """Its keys, by discovery."""
    return Keys(fetch_from(issuer.url, ""), clock)


def test_keys_are_found_by_discovery_and_kept(keys: Keys, issuer: Issuer) -> None:
    """A hundred tokens cost two requests."""
    for _ in range(50):
        assert keys.find("rsa-1") is not None
        assert keys.find("ec-1") is not None
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_a_url_of_the_keys_spares_discovery(issuer: Issuer) -> None:
    """It is asked alone."""
    assert Keys(fetch_from(issuer.url, f"{issuer.url}/keys")).find("rsa-1") is not None
    assert issuer.asked == ["/keys"]


def test_a_new_key_is_found_when_its_first_token_comes(keys: Keys, issuer: Issuer, clock: Clock) -> None:
    """Rotation needs no restart, and no wait but the pause."""
    assert keys.find("rsa-1") is not None
    issuer.publish("rsa-2", rsa_key())
    clock.seconds += PAUSE
    assert keys.find("rsa-2") is not None


def test_a_withdrawn_key_is_forgotten(keys: Keys, issuer: Issuer, clock: Clock) -> None:
    """As soon as the keys are no longer fresh."""
    assert keys.find("rsa-1") is not None
    del issuer.published["rsa-1"]
    assert keys.find("rsa-1") is not None
    clock.seconds += FRESH
    assert keys.find("rsa-1") is None


def test_invented_key_ids_do_not_hammer_the_issuer(keys: Keys, issuer: Issuer, clock: Clock) -> None:
    """One fetch a pause, however many ids are tried, from however many threads."""
    keys.find("rsa-1")
    issuer.asked.clear()
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(keys.find, map(str, range(500)))) == {None}
        assert issuer.asked == []
        clock.seconds += PAUSE
        assert set(pool.map(keys.find, map(str, range(500)))) == {None}
    assert issuer.asked == ["/.well-known/openid-configuration", "/keys"]


def test_known_keys_hold_while_the_issuer_is_down(
    keys: Keys, issuer: Issuer, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    """For a day; then a key that was withdrawn meanwhile would be believed too long. The log tells what is wrong."""
    keys.find("rsa-1")
    issuer.down = True
    clock.seconds += STALE - 1
    assert keys.find("rsa-1") is not None
    clock.seconds += 1
    with pytest.raises(Unavailable) as caught:
        keys.find("rsa-1")
    assert issuer.url not in str(caught.value)
    assert f"{issuer.url}/.well-known/openid-configuration answers 500" in caplog.text


def test_an_unknown_key_is_no_judgement_while_the_issuer_is_down(keys: Keys, issuer: Issuer, clock: Clock) -> None:
    """It may be a new one: the caller is told to come again, and the issuer is not asked for each of them."""
    keys.find("rsa-1")
    issuer.down = True
    clock.seconds += PAUSE
    issuer.asked.clear()
    for _ in range(20):
        with pytest.raises(Unavailable):
            keys.find("rsa-2")
    assert len(issuer.asked) == 1
    issuer.down = False
    issuer.publish("rsa-2", rsa_key())
    clock.seconds += PAUSE
    assert keys.find("rsa-2") is not None


def test_nothing_is_known_while_the_issuer_never_answered(issuer: Issuer, clock: Clock) -> None:
    """Nor is it asked again before the pause."""
    issuer.down = True
    keys = Keys(fetch_from(issuer.url, ""), clock)
    for _ in range(5):
        with pytest.raises(Unavailable):
            keys.find("rsa-1")
    assert len(issuer.asked) == 1


def test_an_address_where_nobody_listens_is_unavailable() -> None:
    """Not an error of the server."""
    with pytest.raises(Unavailable, match="does not answer"):
        fetch_from("http://127.0.0.1:1", "")()


def test_who_looks_for_a_known_key_does_not_wait_for_the_issuer(clock: Clock) -> None:
    """One thread refreshes; the others go on with what is known."""
    with running_issuer() as issuer:
        document = issuer.answer("/keys")
    asked, answered = threading.Event(), threading.Event()
    slow = False

    def fetch() -> Any:
        if slow:
            asked.set()
            assert answered.wait(30)
        return document

    keys = Keys(fetch, clock)
    keys.find("rsa-1")
    slow = True
    clock.seconds += FRESH
    with ThreadPoolExecutor(1) as pool:
        refreshing = pool.submit(keys.find, "rsa-1")
        assert asked.wait(30)
        assert keys.find("ec-1") is not None  # would never return if it waited
        answered.set()
        assert refreshing.result() is not None


def test_an_issuer_that_hangs_does_not_keep_every_thread_waiting() -> None:
    """Whoever comes when enough wait is told to come again."""
    answered = threading.Event()

    def hanging() -> Any:
        assert answered.wait(30)
        raise Unavailable("it hung up")

    keys = Keys(hanging)

    def find(key_id: str) -> str:
        with pytest.raises(Unavailable) as caught:
            keys.find(key_id)
        return str(caught.value)

    with ThreadPoolExecutor(MAX_WAITING + 1) as pool:
        waiting = [pool.submit(find, str(number)) for number in range(MAX_WAITING + 1)]
        while keys._waiting._value:
            time.sleep(0.001)
        assert find("one more") == "the OIDC issuer is being asked for its keys; try again"
        answered.set()
        assert {future.result() for future in waiting} == {"the OIDC issuer does not answer; try again"}


def test_many_first_tokens_cost_one_fetch(issuer: Issuer, clock: Clock) -> None:
    """The others wait for it."""
    keys = Keys(fetch_from(issuer.url, ""), clock)
    with ThreadPoolExecutor(8) as pool:
        assert None not in pool.map(keys.find, ["rsa-1"] * 50)
    assert len(issuer.asked) == 2


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/.well-known/openid-configuration", {"issuer": "http://127.0.0.1:9/other", "jwks_uri": "http://127.0.0.1:9"}),
        ("/.well-known/openid-configuration", {"jwks_uri": "http://127.0.0.1:9"}),
        ("/.well-known/openid-configuration", 404),
        ("/.well-known/openid-configuration", 302),
        ("/.well-known/openid-configuration", []),
        ("/keys", 302),
        ("/keys", b"<html>"),
        ("/keys", b"[" * 200_000),
        ("/keys", b" " * (MAX_DOCUMENT_BYTES + 1)),
        ("/keys", b"\xff"),
        ("/keys", {}),
        ("/keys", {"keys": {}}),
        ("/keys", {"keys": []}),
        ("/keys", {"keys": [{"kty": "oct", "kid": "rsa-1", "k": "c2VjcmV0"}]}),
    ],
)
def test_what_is_no_answer_leaves_the_known_keys(
    keys: Keys, issuer: Issuer, clock: Clock, path: str, answer: Any
) -> None:
    """Another issuer, a redirect, a page, a bomb, no keys, a shared secret."""
    keys.find("rsa-1")
    issuer.documents[path] = answer
    clock.seconds += FRESH
    assert keys.find("rsa-1") is not None
    with pytest.raises(Unavailable):
        keys.find("rsa-2")


@pytest.mark.parametrize("url", ["http://10.0.0.1/keys", "file:///etc/passwd", "", None, 7, "http://[::1"])
def test_discovery_does_not_lead_away_from_https(issuer: Issuer, url: Any) -> None:
    """Nor out of HTTP."""
    issuer.documents["/.well-known/openid-configuration"] = {"issuer": issuer.url, "jwks_uri": url}
    with pytest.raises(Unavailable, match="no https URL as jwks_uri"):
        fetch_from(issuer.url, "")()


def spoilt(change: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], dict[str, Any]]:
    def apply(jwk: dict[str, Any]) -> dict[str, Any]:
        change(jwk)
        return jwk

    return apply


@pytest.mark.parametrize(
    "change",
    [
        spoilt(lambda jwk: jwk.update(use="enc")),
        spoilt(lambda jwk: jwk.update(alg="HS256")),
        spoilt(lambda jwk: jwk.update(alg="none")),
        spoilt(lambda jwk: jwk.update(alg=["RS256"])),
        spoilt(lambda jwk: jwk.update(kid=7)),
        spoilt(lambda jwk: jwk.update(kty="oct")),
        spoilt(lambda jwk: jwk.update(kty=["RSA"])),
        spoilt(lambda jwk: jwk.update(n="!")),
        spoilt(lambda jwk: jwk.update(n=7)),
        spoilt(lambda jwk: jwk.update(e="AA")),
        spoilt(lambda jwk: jwk.pop("n")),
        spoilt(lambda jwk: jwk.pop("kty")),
    ],
)
def test_a_key_that_cannot_be_used_leaves_the_others(
    issuer: Issuer, change: Callable[[dict[str, Any]], dict[str, Any]]
) -> None:
    """One entry of a new kind does not lock everybody out."""
    issuer.documents["/keys"] = {"keys": [change(issuer.jwk("rsa-1")), "no key", None, issuer.jwk("ec-1")]}
    keys = Keys(fetch_from(issuer.url, ""))
    assert keys.find("ec-1") is not None
    assert keys.find("rsa-1") is None


def test_a_token_without_a_key_id_is_for_an_issuer_of_one_key(issuer: Issuer) -> None:
    """Among several, none is guessed."""
    assert Keys(fetch_from(issuer.url, "")).find(None) is None
    issuer.published = {"only": ec_key()}
    assert Keys(fetch_from(issuer.url, "")).find(None) is not None
