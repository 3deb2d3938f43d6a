"""A webhook as a target: a POST, signed as Standard Webhooks asks for, tried again while the receiver is only busy.

Whoever receives can verify with a library of that standard (https://www.standardwebhooks.com). Neither the secret nor
the path of the URL, which may hold one, is in any message.
"""

import binascii
import hmac
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from http import HTTPStatus
from urllib.parse import urlsplit

import requests
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_exponential_jitter
from tenacity.wait import wait_base
from urllib3.exceptions import HTTPError

from tally.domain.delivery import Parcel
from tally.domain.errors import InvalidInput, Refused, TallyError, Unavailable

ATTEMPTS = 4  # at once; later ones are the outbox's business
LONGEST_PAUSE = 30.0  # seconds
CONNECT_SECONDS = 10.0
MOST_READ = 16 * 1024  # bytes of an answer: enough to say what is wrong
MOST_SHOWN = 200
SECRET_PREFIX = "whsec_"  # noqa: S105 - what a secret begins with
SECRET_BYTES = range(24, 65)

_OF_THE_DOCUMENT = frozenset({400, 409, 413, 415, 422})
_BUSY = frozenset({408, 425, 429, 500, 502, 503, 504})
_BACKOFF = wait_exponential_jitter(initial=1, max=LONGEST_PAUSE)


class _Busy(Unavailable):
    """The receiver may take the document in a moment, or after as many seconds as it says."""

    def __init__(self, text: str, after: float = 0.0) -> None:
        super().__init__(text)
        self.after = after


def read_secret(text: str) -> bytes:
    """Read a secret as the standard writes it.

    Raises:
        InvalidInput: without the text.
    """
    try:
        key = b64decode(text.removeprefix(SECRET_PREFIX), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not text.startswith(SECRET_PREFIX) or len(key) not in SECRET_BYTES:
        least, most = SECRET_BYTES[0], SECRET_BYTES[-1]
        raise InvalidInput(f"not {SECRET_PREFIX} and {least} to {most} random bytes in base64")
    return key


def signature(key: bytes, message_id: str, timestamp: int, body: bytes) -> str:
    """Sign a message: HMAC-SHA256 over its id, its time and its body, joined by full stops."""
    signed = b".".join((message_id.encode(), str(timestamp).encode(), body))
    return f"v1,{b64encode(hmac.digest(key, signed, 'sha256')).decode()}"


class Webhook:
    """An address that documents are posted to; 2xx says that the receiver keeps it."""

    def __init__(
        self,
        url: str,
        key: bytes,
        timeout: float,
        *,
        backoff: wait_base = _BACKOFF,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._url, self._key, self._timeout, self._clock = url, key, timeout, clock
        self._name = f"webhook at {urlsplit(url).hostname}"
        self._session = requests.Session()
        self._session.trust_env = False  # neither a proxy nor a password of the environment is meant for it
        self._retrying = Retrying(
            retry=retry_if_exception_type(_Busy),
            stop=stop_after_attempt(ATTEMPTS),
            wait=_Patient(backoff),
            sleep=sleep,
            reraise=True,
        )

    def deliver(self, parcel: Parcel) -> str:
        """Post a document until the receiver keeps it or refuses it, or seems to be away."""
        return self._retrying(self._post, parcel)

    def _post(self, parcel: Parcel) -> str:
        try:
            with self._session.post(
                self._url,
                data=parcel.body,
                headers=self._headers(parcel),
                timeout=(min(CONNECT_SECONDS, self._timeout), self._timeout),
                allow_redirects=False,
                stream=True,
            ) as response:
                if not HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES:
                    raise self._fault(parcel, response)
                return f"answered {response.status_code}"
        except requests.RequestException as error:
            raise _Busy(f"{self._name} does not answer: {_reason(error)}") from None

    def _headers(self, parcel: Parcel) -> dict[str, str]:
        timestamp = int(self._clock())
        return {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "Accept-Encoding": "identity",  # what is read is bounded as it comes
            "User-Agent": "tally",
            "Idempotency-Key": parcel.idempotency_key,
            "webhook-id": parcel.idempotency_key,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signature(self._key, parcel.idempotency_key, timestamp, parcel.body),
        }

    def _fault(self, parcel: Parcel, response: requests.Response) -> TallyError:
        status = response.status_code
        said = f"{self._name} answers {status}: {_shown(response)}"
        if status in _BUSY:
            return _Busy(said, _seconds(response.headers))
        if status in _OF_THE_DOCUMENT:
            return Refused(f"{parcel.name} is not taken", [said])
        return Unavailable(said)


class _Patient(wait_base):
    """Waits as long as the receiver asks for, within reason, and by the backoff otherwise."""

    def __init__(self, backoff: wait_base) -> None:
        self._backoff = backoff

    def __call__(self, retry_state: RetryCallState) -> float:
        error = retry_state.outcome.exception() if retry_state.outcome else None
        asked = error.after if isinstance(error, _Busy) else 0.0
        return max(float(self._backoff(retry_state)), min(asked, LONGEST_PAUSE))


def _shown(response: requests.Response) -> str:
    try:
        read = response.raw.read1(MOST_READ)  # what has come: a receiver that drips is not waited for
    except (HTTPError, OSError):
        read = b""
    text = " ".join(read.decode("utf-8", "replace").split())
    return "".join(character for character in text if character.isprintable())[:MOST_SHOWN] or "without a reason"


def _seconds(headers: Mapping[str, str]) -> float:
    text = headers.get("Retry-After", "")
    return float(text) if text.isascii() and text.isdecimal() and len(text) <= len("86400") else 0.0


def _reason(error: requests.RequestException) -> str:
    reasons = (
        (requests.exceptions.SSLError, "its certificate is not trusted"),
        (requests.exceptions.ConnectTimeout, "no connection in time"),
        (requests.exceptions.Timeout, "no answer in time"),
        (requests.exceptions.ConnectionError, "no connection, or a broken one"),
    )
    return next((said for kind, said in reasons if isinstance(error, kind)), type(error).__name__)
