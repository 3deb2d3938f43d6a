"""A webhook gets signed messages, is tried again while it is busy, and never learns or tells more than it has to."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler

import pytest
from tenacity import wait_fixed, wait_none

from tally.domain.delivery import Parcel
from tally.domain.errors import InvalidInput, Refused, TallyError, Unavailable
from tally.store.targets import webhook
from tally.store.targets.webhook import ATTEMPTS, Webhook, read_secret, signature
from tests.receiver import SECRET, Receiver, hangs_up, receiving, says

PARCEL = Parcel("2026-03/2026-03-A.json", "2026-03-A:erp", '{"project_id": "team-älpha"}\n'.encode())


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def hook(receiver: Receiver, timeout: float = 30) -> Webhook:
    return Webhook(receiver.url, read_secret(SECRET), timeout, backoff=wait_none(), clock=lambda: 1_772_000_000.9)


def fault(target: Webhook) -> TallyError:
    with pytest.raises(TallyError) as raised:
        target.deliver(PARCEL)
    return raised.value


def test_the_signature_is_that_of_the_standard() -> None:
    """The example of the libraries of Standard Webhooks."""
    key = read_secret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
    signed = signature(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}')
    assert signed == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_a_message_is_signed_and_has_the_key_of_its_document(receiver: Receiver) -> None:
    """Over id, time and body; computed here by another way than there."""
    assert hook(receiver).deliver(PARCEL) == "answered 204"
    (message,) = receiver.messages
    assert message.is_signed()
    assert message.body == PARCEL.body
    assert message.headers["Content-Type"] == "application/json"
    assert message.headers["Idempotency-Key"] == message.headers["webhook-id"] == "2026-03-A:erp"
    assert message.headers["webhook-timestamp"] == "1772000000"


@pytest.mark.parametrize(
    "busy", [hangs_up, *(says(status) for status in (408, 425, 429, 500, 502, 503, 504))],
    ids=["hangs up", "408", "425", "429", "500", "502", "503", "504"],
)
def test_a_receiver_that_is_busy_is_asked_again_with_the_same_message(receiver: Receiver, busy: object) -> None:
    """Under the same key, so that one that had taken it already can tell."""
    receiver.answers = [busy, busy]  # type: ignore[list-item]
    hook(receiver).deliver(PARCEL)
    assert receiver.times == {"2026-03-A:erp": 3}
    assert {message.body for message in receiver.messages} == {PARCEL.body}
    assert all(message.is_signed() for message in receiver.messages)


def test_a_receiver_that_stays_busy_is_left_for_later(receiver: Receiver) -> None:
    """After four attempts it is the outbox's business."""
    receiver.answer = says(503, b"maintenance\nuntil \x1b[31mnoon")
    error = fault(hook(receiver))
    assert isinstance(error, Unavailable)
    assert str(error) == "webhook at 127.0.0.1 answers 503: maintenance until [31mnoon"
    assert len(receiver.messages) == ATTEMPTS


def test_a_receiver_that_stalls_is_given_up_in_time(receiver: Receiver) -> None:
    """Before it has answered anything."""
    over = threading.Event()

    def stall(_: BaseHTTPRequestHandler) -> None:
        over.wait(60)

    receiver.answer = stall
    error = fault(hook(receiver, timeout=0.05))
    over.set()
    assert isinstance(error, Unavailable)
    assert str(error) == "webhook at 127.0.0.1 does not answer: no answer in time"


@pytest.mark.parametrize("status", [400, 409, 413, 415, 422])
def test_a_document_that_is_refused_is_refused_alone(receiver: Receiver, status: int) -> None:
    """It is not sent again at once, and the others go on."""
    receiver.answer = says(status, b"unknown customer")
    error = fault(hook(receiver))
    assert isinstance(error, Refused)
    assert str(error).endswith(f"webhook at 127.0.0.1 answers {status}: unknown customer")
    assert len(receiver.messages) == 1


@pytest.mark.parametrize("status", [300, 301, 302, 307, 308, 401, 403, 404, 405, 410])
def test_a_receiver_that_is_not_the_right_one_gets_no_more(receiver: Receiver, status: int) -> None:
    """No redirect is followed: the document would go to somebody else."""
    receiver.answer = says(status, Location=receiver.url + "/elsewhere")
    error = fault(hook(receiver))
    assert isinstance(error, Unavailable)
    assert [message.path for message in receiver.messages] == ["/hooks/s3cret-path"]


def test_neither_the_path_nor_the_secret_is_told(receiver: Receiver) -> None:
    """In no message, however it fails; nor by the target itself."""
    port, secret = receiver.port, SECRET.removeprefix("whsec_")
    receiver.answer = says(403)
    target = hook(receiver)
    nowhere = Webhook("http://127.0.0.1:1/hooks/s3cret-path", read_secret(SECRET), 5, backoff=wait_none())
    told = [str(fault(target)), str(fault(nowhere)), repr(target), str(vars(target)["_name"])]
    assert told[1] == "webhook at 127.0.0.1 does not answer: no connection, or a broken one"
    assert [text for text in told if "s3cret" in text or secret in text or str(port) in text] == []


def test_an_answer_is_read_no_further_than_it_is_needed(receiver: Receiver) -> None:
    """One without an end neither fills memory nor is waited for."""
    over = threading.Event()

    def endless(handler: BaseHTTPRequestHandler) -> None:
        handler.send_response(422)
        handler.end_headers()
        handler.wfile.write(b"x" * webhook.MOST_READ)
        handler.wfile.flush()
        over.wait(60)

    receiver.answer = endless
    error = fault(hook(receiver))
    over.set()
    assert str(error).endswith(": " + "x" * webhook.MOST_SHOWN)


def test_a_receiver_says_how_long_it_wants_to_be_left_alone(receiver: Receiver) -> None:
    """Within reason; where it says nothing that is a number, or less than the backoff, the backoff holds."""
    waits: list[float] = []
    receiver.answers = [says(429, Retry_After=after) for after in ("7", "soon", "86400")]
    Webhook(receiver.url, read_secret(SECRET), 5, backoff=wait_fixed(2), sleep=waits.append).deliver(PARCEL)
    assert waits == [7, 2, webhook.LONGEST_PAUSE]


@pytest.mark.parametrize(
    "text", ["", "whsec_", "secret", SECRET.removeprefix("whsec_"), "whsec_c2hvcnQ=", "whsec_" + "A" * 400, "whsec_ä"]
)
def test_a_secret_that_is_none_is_refused_without_being_told(text: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        read_secret(text)
    assert str(raised.value) == "not whsec_ and 24 to 64 random bytes in base64"
