"""`tally deliver` and `tally deliveries`, as a person uses them, and kill -9 in the middle of a delivery."""

import signal
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from uuid import UUID

import pytest

from tally.store.database import Connection
from tests.integration.command_line import TALLY, environment, run
from tests.integration.issuing import bill, finalized
from tests.receiver import SECRET, Receiver, receiving, says

PATIENCE = 300  # seconds; only what hangs needs them


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def delivering(
    home: Path, reporting_url: str, metering_url: str, dagster_url: str, receiver: Receiver, tmp_path: Path
) -> dict[str, str]:
    """The environment of an installation with a webhook, whose secret is in a variable."""
    targets = tmp_path / "targets.yaml"
    targets.write_text(
        f"erp:\n  type: webhook\n  from: 2026-03\n  url: {receiver.url}\n  secret: {{env: ERP_SECRET}}\n"
    )
    return environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=reporting_url,
        TALLY_METERING_URL=metering_url,
        TALLY_DAGSTER_URL=dagster_url,
        TALLY_DELIVERY_TARGETS=str(targets),
        ERP_SECRET=SECRET,
    )


@pytest.fixture
def march(metering: Connection) -> UUID:
    """A finalized month with four bills."""
    return finalized(metering, *(bill(f"p-{number}", "1.00") for number in range(4)))


@pytest.mark.usefixtures("march")
def test_what_a_killed_delivery_had_in_hand_is_delivered_by_the_next(
    delivering: dict[str, str], receiver: Receiver
) -> None:
    """Kill -9 while the second document is on its way: it comes again, the same; the others come once."""
    arrived, over = threading.Event(), threading.Event()

    def second_stalls(handler: BaseHTTPRequestHandler) -> None:
        if len(receiver.messages) == 2:
            arrived.set()
            over.wait(PATIENCE)
        handler.send_response(200)
        handler.end_headers()

    receiver.answer = second_stalls
    victim = subprocess.Popen([TALLY, "deliver"], env=delivering, stdout=subprocess.DEVNULL)
    assert arrived.wait(PATIENCE)
    victim.send_signal(signal.SIGKILL)
    victim.wait()
    over.set()
    receiver.answer = None
    done = run(delivering, "deliver", "2026-03")
    assert (done.status, done.out.split("\n")[2].split()) == (0, ["erp", "0", "3", "0"]), done
    interrupted = receiver.messages[1].key
    assert receiver.times == {message.key: 2 if message.key == interrupted else 1 for message in receiver.messages}
    assert len({message.body for message in receiver.messages}) == len(receiver.times) == 4
    again = run(delivering, "resend", "2026-03", "--target", "erp", "--reason", "the ERP was restored")
    assert (again.status, again.out) == (0, "erp: 4 document(s) are sent again by the next delivery\n"), again
    ended = run(delivering, "resend", "2026-03", "--target", "erp", "--withdraw", "--reason", "it was not lost")
    assert (ended.status, ended.out) == (0, "erp: 4 document(s) are not sent again after all\n"), ended
    listed = run(delivering, "deliveries", "2026-03", "--status", "withdrawn")
    assert " ".join(listed.out.split()).count("it was not lost") == 4, listed


@pytest.mark.usefixtures("march")
def test_the_exit_code_says_whether_a_target_lacks_something(
    delivering: dict[str, str], receiver: Receiver, home: Path
) -> None:
    """1, with what is wrong; neither the secret nor the path of the URL is told anywhere."""
    receiver.answer = says(401, b"no signature of ours")
    failed = run(delivering, "deliver", "--target", "erp")
    assert failed.status == 1, failed
    assert "webhook at 127.0.0.1 answers 401: no signature of ours" in failed.out
    listed = run(delivering, "deliveries", "2026-03")
    assert listed.status == 0, listed
    assert listed.out.split("\n")[2].split() == ["erp", "2026-03", "0", "3", "1"]
    assert "answers 401" in listed.out
    unknown = run(delivering, "deliver", "--target", "epr")
    assert (unknown.status, unknown.err) == (2, "tally: 'epr' is no target; there are erp\n")
    misspelt = run(delivering, "deliveries", "--target", "epr")
    assert (misspelt.status, misspelt.err) == (1, "tally: nothing was ever delivered to 'epr'; there are erp\n")
    told = "".join(done.out + done.err for done in (failed, listed, unknown))
    logs = "".join(path.read_text(errors="replace") for path in home.rglob("*.log"))
    assert [text for text in ("s3cret-path", SECRET.removeprefix("whsec_")) if text in told + logs] == []
