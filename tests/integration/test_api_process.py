"""`tally api` as a program: how it starts, what it survives, how it ends, and how it says what is wrong."""

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tally.services.installation import running
from tally.settings import Settings
from tally.store.database import connected
from tests.conftest import REPOSITORY
from tests.integration.api_process import (
    COMMAND,
    PATIENCE_SECONDS,
    Api,
    Urls,
    answers,
    api_process,
    environment,
    free_port,
    runs,
    wait_until,
)
from tests.integration.api_server import Client
from tests.integration.sending import CREATE, volume

pytestmark = pytest.mark.slow

EVENTS = "/api/v1/events"
NOWHERE = "postgresql://nobody@127.0.0.1:1/none"


@pytest.fixture
def urls(reporting_url: str, metering_url: str, dagster_url: str) -> Urls:
    return {"reporting_url": reporting_url, "metering_url": metering_url, "dagster_url": dagster_url}


@pytest.fixture
def served(home: Path, urls: Urls) -> Iterator[Api]:
    """A server of two processes."""
    with api_process(home, urls, api_workers=2) as api:
        yield api


def accepted(client: Client) -> float:
    """What event_count says."""
    families = text_string_to_metric_families(client.get("/metrics").text)
    return sum(sample.value for family in families if family.name == "event_count" for sample in family.samples)


def failure(home: Path, urls: Urls, *arguments: str, port: int = 0) -> tuple[int, str]:
    """The exit code and the last words of a server that does not start."""
    ended = subprocess.run(
        [*COMMAND, *arguments],
        cwd=REPOSITORY,
        env=environment(home, port or free_port(), urls),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.stdout == ""
    return ended.returncode, ended.stderr


def test_it_says_what_it_is_and_ends_with_ctrl_c(served: Api) -> None:
    """In lines that nothing wraps. It refuses pages of other hosts (loopback.py), and all of its processes end."""
    assert served.lines == [
        "WITHOUT AUTHENTICATION: whoever reaches this port is an operator. For development only.\n",
        f"API       {served.client.url}   documentation at /docs. Ctrl-C stops it.\n",
    ]
    strange = {"Host": "tally.example.com"}
    assert served.client.request("POST", EVENTS, json_body=[], headers=strange).status_code == 403
    workers = served.workers()
    assert len(workers) == 2
    assert served.stop(signal.SIGINT) == 0
    assert not any(map(runs, workers))
    assert served.process.stderr is not None
    assert served.process.stderr.read() == ""


def test_processes_that_are_killed_come_back_and_their_counts_stay(served: Api) -> None:
    """One after the other; what they have counted is in the metrics of the next. Terminated, nothing is left: 143."""
    url = served.client.url
    for number, worker in enumerate(served.workers()):
        sent = Client(url).post(EVENTS, volume(f"e-{number}", "01T00:00:00", CREATE, 1))
        assert sent.status_code == 201
        os.kill(worker, signal.SIGKILL)
        wait_until(lambda: len(served.workers()) == 2)
        wait_until(lambda: answers(Client(url)))
    assert accepted(Client(url)) == 2
    workers = served.workers()
    assert served.stop(signal.SIGTERM) == 143
    assert not any(map(runs, workers))


def test_when_it_is_killed_its_processes_end_and_another_can_begin(home: Path) -> None:
    """Nobody keeps the port or the embedded server, and what was stored is there. It ends with its embedded server."""
    with api_process(home, {}, api_workers=2) as killed:
        killed.client.post(EVENTS, volume("e-1", "01T00:00:00", CREATE, 1))
        workers = killed.workers()
        killed.process.kill()
        killed.process.wait()
        wait_until(lambda: not any(map(runs, workers)))
        port = int(killed.client.url.rpartition(":")[2])
        with api_process(home, {}, port=port, api_workers=1) as again:
            again_sent = again.client.post(EVENTS, volume("e-1", "01T00:00:00", CREATE, 1))
            assert again_sent.json()["status"] == "deduplicated"
            workers = again.workers()
            postmaster = int((home / "postgres/data/postmaster.pid").read_text(encoding="utf-8").splitlines()[0])
            os.kill(postmaster, signal.SIGKILL)
            assert again.process.wait(PATIENCE_SECONDS) == 1
            assert not any(map(runs, workers))
            assert again.process.stderr is not None
            last = again.process.stderr.read().splitlines()[-1]
            assert last.startswith("tally: the embedded PostgreSQL in ")
            assert last.endswith("; start this command again")
            wait_until(lambda: not Path(f"/proc/{postmaster}").exists())  # else another takes it for alive
    with running(Settings(home)) as databases, connected(databases.reporting_url) as reporting:
        assert reporting.execute("select count(*) from reporting.events").fetchone() == (1,)


def test_a_taken_port_is_told_in_one_line(home: Path, urls: Urls) -> None:
    """With what to do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = failure(home, urls, port=port)
    expected = f"tally: the API cannot listen on 127.0.0.1:{port}: Address already in use;"
    assert (code, said) == (2, f"{expected} name another --host or TALLY_API_PORT\n")


def test_a_database_that_is_down_is_told_in_one_line(home: Path) -> None:
    """Without a traceback."""
    code, said = failure(home, dict.fromkeys(("reporting_url", "metering_url", "dagster_url"), NOWHERE))
    assert code == 1
    assert said.startswith("tally: database 'none' at 127.0.0.1:1 does not answer: ")
    assert said.count("\n") == 1


def test_without_authentication_it_serves_this_machine_only(home: Path, urls: Urls) -> None:
    """An address that others can reach is refused."""
    code, said = failure(home, urls, "--development", "--host", "0.0.0.0")  # noqa: S104 - it is refused
    assert code == 2
    assert said.startswith("tally: without authentication the API serves this machine only: 0.0.0.0 is not")
