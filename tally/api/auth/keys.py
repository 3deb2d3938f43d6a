"""The public keys of the OIDC issuer: fetched, kept, fetched again when they change. What a token says stands in oidc.

Threads share one ``Keys``. One thread at a time asks the issuer; who looks for a known key does not wait for it.
"""

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import jwt
import requests
from cryptography.exceptions import UnsupportedAlgorithm

from tally.domain.errors import Unavailable
from tally.settings import is_loopback

FRESH = 600  # seconds; then the keys are fetched again, so that one that was withdrawn is forgotten
STALE = 86_400  # seconds that keys are believed while the issuer does not answer
PAUSE = 10  # seconds between two fetches at least, so that invented key ids cannot hammer the issuer
REFRESH_PAUSE = 60  # likewise while the keys that are known will do
MAX_WAITING = 16  # threads that wait for an answer of the issuer; the server has some dozens for all its work
TIMEOUT = (3, 5)  # seconds to connect, and to wait for bytes
MAX_DOCUMENT_BYTES = 512 * 1024
_MAX_KEYS = 100
_KINDS = ("RSA", "EC", "OKP")  # never "oct": a shared secret signs as well as it verifies
_BROKEN = (
    jwt.PyJWTError,
    UnsupportedAlgorithm,
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)

_log = logging.getLogger(__name__)

Fetch = Callable[[], Mapping[str, Any]]


class Key(NamedTuple):
    """A public key, and the one algorithm that it is for, if its issuer says so."""

    public: Any
    algorithm: str | None


class Keys:
    """The keys of one issuer by their ids, as ``fetch`` returns them (a JWK Set)."""

    def __init__(self, fetch: Fetch, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._fetch = fetch
        self._monotonic = monotonic
        self._lock = threading.Lock()  # held by the one thread that fetches
        self._waiting = threading.BoundedSemaphore(MAX_WAITING)
        self._keys: Mapping[str | None, Key] = {}
        self._fetched: float | None = None  # when the keys came
        self._tried: float | None = None  # when they were last asked for
        self._failed = False  # whether that was in vain

    def find(self, key_id: str | None) -> Key | None:
        """Return a key; None if the issuer has none of this id.

        Raises:
            Unavailable: if that cannot be known, because the issuer does not answer.
        """
        key = self._keys.get(key_id)
        if key is not None and self._younger_than(FRESH):
            return key
        if key is not None and self._younger_than(STALE):
            self._refresh(REFRESH_PAUSE, blocking=False)
            return self._keys.get(key_id)
        self._refresh(PAUSE, blocking=True)
        key = self._keys.get(key_id)
        if self._failed and (key is None or not self._younger_than(STALE)):
            raise Unavailable("the OIDC issuer does not answer; try again")
        return key

    def _younger_than(self, seconds: float) -> bool:
        return self._fetched is not None and self._monotonic() - self._fetched < seconds

    def _refresh(self, pause: float, *, blocking: bool) -> None:
        if not self._lock.acquire(blocking=False):
            if not blocking:
                return
            self._wait()
        try:
            now = self._monotonic()
            if self._tried is not None and now - self._tried < pause:
                return
            try:
                self._keys, self._fetched, self._failed = _usable(self._fetch()), now, False
            except Unavailable as error:
                self._failed = True
                _log.warning("the keys of the OIDC issuer cannot be had: %s", error)  # callers need no address of it
            finally:
                self._tried = self._monotonic()
        finally:
            self._lock.release()

    def _wait(self) -> None:
        """Wait for the thread that asks, unless too many do: invented key ids must not keep all threads waiting."""
        if not self._waiting.acquire(blocking=False):
            raise Unavailable("the OIDC issuer is being asked for its keys; try again")
        try:
            self._lock.acquire()
        finally:
            self._waiting.release()


def _usable(document: Mapping[str, Any]) -> dict[str | None, Key]:
    """Read the keys that can verify signatures; one without an id is found only where it stands alone."""
    listed = document.get("keys")
    if not isinstance(listed, list):
        raise Unavailable("what the issuer answers is no set of keys")
    usable: dict[str | None, Key] = {}
    for entry in listed[:_MAX_KEYS]:
        if not isinstance(entry, dict) or entry.get("kty") not in _KINDS or entry.get("use", "sig") != "sig":
            continue
        key_id = entry.get("kid")
        try:
            if key_id is None or isinstance(key_id, str):
                usable[key_id] = Key(jwt.PyJWK(entry).key, entry.get("alg"))
        except _BROKEN:  # or of an algorithm that is not known here: the others hold
            continue
    if not usable:
        raise Unavailable("the issuer answers with no key that verifies signatures")
    if len(listed) > 1:
        usable.pop(None, None)
    else:
        usable[None] = next(iter(usable.values()))
    return usable


def fetch_from(issuer: str, jwks_url: str) -> Fetch:
    """Return what fetches the keys of an issuer: from ``jwks_url``, or where its discovery document says."""

    def fetch() -> Mapping[str, Any]:
        url = jwks_url or _discovered(issuer)
        return _get(url)

    return fetch


def _discovered(issuer: str) -> str:
    address = issuer.rstrip("/") + "/.well-known/openid-configuration"
    found = _get(address)
    if found.get("issuer") != issuer:
        raise Unavailable(f"{address} speaks for another issuer than {issuer}; set TALLY_OIDC_ISSUER as it writes it")
    url = found.get("jwks_uri")
    if not isinstance(url, str) or not _is_safe(url):
        raise Unavailable(f"{address} names no https URL as jwks_uri; set TALLY_OIDC_JWKS_URL")
    return url


def _is_safe(url: str) -> bool:
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    return bool(host) and (parts.scheme == "https" or (parts.scheme == "http" and is_loopback(host)))


def _get(url: str) -> Mapping[str, Any]:
    """Read a JSON object; redirects are not followed, for they could lead away from https."""
    try:
        with requests.get(url, timeout=TIMEOUT, allow_redirects=False, stream=True) as answer:
            if answer.status_code != requests.codes.ok:
                raise Unavailable(f"{url} answers {answer.status_code} instead of the issuer's keys")
            text = b""
            for part in answer.iter_content(8192):
                text += part
                if len(text) > MAX_DOCUMENT_BYTES:
                    raise Unavailable(f"{url} answers with more than {MAX_DOCUMENT_BYTES} bytes")
    except (requests.RequestException, OSError) as error:
        raise Unavailable(f"{url} does not answer: {type(error).__name__}") from None
    try:
        content = json.loads(text)
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Unavailable(f"{url} answers with what is no JSON object")
    return content
