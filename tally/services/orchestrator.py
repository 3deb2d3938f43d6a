"""Dagster, as programs of its own: one job run to its end, or the webserver and the daemon until told to stop.

Nothing of Dagster is imported here. What a job does belongs to tally_dagster.
"""

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote
from uuid import UUID

from tally.domain.errors import InvalidInput, Refused, Unavailable, cause
from tally.services.installation import Databases
from tally.settings import Settings
from tally.store.database import foreign_session

if TYPE_CHECKING:
    import requests

ROOT = Path(__file__).parents[2]
CONFIGURATION = ROOT / "deploy" / "dagster.yaml"
WORKSPACE = ROOT / "workspace.yaml"
WEBSERVER_SECONDS = 180  # importing Dagster and the code location on a slow machine
STOP_SECONDS = 10
WATCH_SECONDS = 0.2

LOCATIONS = """{ workspaceOrError { ... on Workspace { locationEntries {
    locationOrLoadError { ... on PythonError { message } } } } } }"""

# The first pass of Dagster's queue over a pool that it has never met lets all runs in: so it is told of it before.
LIMIT = """mutation { setConcurrencyLimit(concurrencyKey: "metering", limit: 1) }"""

# A billing system does not phone home, and behind a closed network the attempts cost time.
NO_TELEMETRY = {
    "DAGSTER_DISABLE_TELEMETRY": "true",
    "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
    "DO_NOT_TRACK": "1",
    "GX_ANALYTICS_ENABLED": "false",
}


def run_job(
    settings: Settings,
    databases: Databases,
    job: str,
    period: str,
    *,
    actor: str,
    say: Callable[[str], None],
    tags: Mapping[str, str] | None = None,
) -> None:
    """Run a job for a period in a process of its own and wait for it.

    The process is ``python -m tally_dagster.launch JOB PERIOD --actor ACTOR``, with ``--tag NAME=VALUE`` for each tag
    of the run. What it writes to stderr is progress,
    passed to ``say`` as it comes; it exits with 0, or with 1 after a last line that says why, JOB PERIOD first.
    Its log is TALLY_HOME/logs/JOB-PERIOD.log.

    Raises:
        Refused: with that line and the path of the log.
    """
    log = _logs(settings) / f"{job}-{period}.log"
    command = [sys.executable, "-m", "tally_dagster.launch", job, period, "--actor", actor]
    command += [f"--tag={name}={value}" for name, value in (tags or {}).items()]
    environment = _environment(settings, databases) | {"PYTHONWARNINGS": "ignore"}
    last = ""
    with _process(command, environment, subprocess.DEVNULL, subprocess.PIPE) as process:
        for raw in process.stderr or ():
            line = raw.decode("utf-8", "replace").rstrip()
            last = line or last
            if line and not line.startswith(f"{job} {period}"):  # as a line begins that says why it failed
                say(line)
        status = process.wait()
    if status < 0:  # it could not say why
        ended = f"its process was ended by signal {-status} ({signal.strsignal(-status)})"
        raise Refused(f"{job} of {period}", [f"{ended} at {last or 'its start'}", f"see {log}"])
    if status != 0:
        raise Refused(last or f"{job} of {period} ended with exit code {status}", [f"see {log}"])


def run_replay(settings: Settings, databases: Databases, run: UUID, say: Callable[[str], None]) -> None:
    """Derive the usage and costs of a run again, in a process of its own: ``python -m tally_dagster.replay RUN``.

    What it derives is in the schemas of tally.store.metering.replay; the caller holds the metering lock.

    Raises:
        Refused: with the last line it said.
    """
    command = [sys.executable, "-m", "tally_dagster.replay", str(run)]
    environment = _environment(settings, databases) | {"PYTHONWARNINGS": "ignore"}
    last = ""
    with _process(command, environment, subprocess.DEVNULL, subprocess.PIPE) as process:
        for raw in process.stderr or ():
            last = raw.decode("utf-8", "replace").strip() or last
        status = process.wait()
    if status != 0:
        raise Refused(f"run {run} cannot be replayed", [last or f"exit code {status}"])
    say(f"run {run} has been derived again")


def up(settings: Settings, databases: Databases, say: Callable[[str], None]) -> None:
    """Run the Dagster webserver and daemon until this process is interrupted; both are stopped then.

    Raises:
        InvalidInput: if the port is taken.
        Refused: if another process does so in the same TALLY_HOME.
        Unavailable: if one of them ends by itself or does not answer, or the code location does not load.
    """
    address = f"http://127.0.0.1:{settings.web_port}"
    environment = _environment(settings, databases)
    workspace = ["--workspace", str(WORKSPACE)]
    port = ["--host", "127.0.0.1", "--port", str(settings.web_port)]
    programs = {
        "webserver": ["dagster_webserver", *port, *workspace],
        "daemon": ["dagster._daemon", "run", *workspace],
    }
    logs = _logs(settings)
    with ExitStack() as stack:
        stack.enter_context(alone(settings.home))
        _refuse_taken(settings.web_port)
        processes = {}
        for name, program in programs.items():
            output = stack.enter_context((logs / f"{name}.log").open("wb"))
            processes[name] = stack.enter_context(bound(program, environment, output.fileno()))
        _wait_for(address, processes, logs)
        _refuse_unloaded(address, logs)
        _local().post(f"{address}/graphql", json={"query": LIMIT}, timeout=WEBSERVER_SECONDS).raise_for_status()
        say(f"Dagster   {address}")
        say(f"Data      {settings.home}")
        say(f"Logs      {logs}")
        say("Ctrl-C stops everything.")
        while True:
            databases.check()  # first: without it the others end, too
            _refuse_ended(processes, logs)
            time.sleep(WATCH_SECONDS)


@contextmanager
def alone(home: Path) -> Iterator[None]:
    """Keep others from running Dagster in a home: two daemons would launch what is due twice."""
    with (home / "up.lock").open("ab") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Refused(f"tally up runs already in {home}", ["stop it first, or set another TALLY_HOME"]) from None
        yield


def _environment(settings: Settings, databases: Databases) -> dict[str, str]:
    """Environment of a Dagster process: where its home is, which databases it uses, no telemetry."""
    home = settings.home / "dagster"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    shutil.copyfile(CONFIGURATION, home / "dagster.yaml")
    programs = str(Path(sys.executable).parent)  # dagster-dbt looks for dbt on PATH
    return dict(
        os.environ,
        **NO_TELEMETRY,
        PATH=programs + os.pathsep + os.environ.get("PATH", os.defpath),
        PYTHONUNBUFFERED="1",
        DAGSTER_HOME=str(home),
        DAGSTER_PG_URL=url_for_dagster(databases.dagster_url),
        TALLY_HOME=str(settings.home),
        TALLY_REPORTING_URL=databases.reporting_url,
        TALLY_METERING_URL=databases.metering_url,
        TALLY_DAGSTER_URL=databases.dagster_url,
    )


def url_for_dagster(url: str) -> str:
    """The URL as Dagster takes it, with what results depend on: it takes every instant that it reads for UTC."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in {"postgres", "postgresql"}:
        raise InvalidInput("TALLY_DAGSTER_URL is not a postgresql:// URL")
    address, _, query = rest.partition("?")
    kept = [part for part in query.split("&") if part and not part.startswith("options=")]
    return f"postgresql+psycopg2://{address}?" + "&".join([*kept, f"options={quote(foreign_session(url))}"])


def _logs(settings: Settings) -> Path:
    logs = settings.home / "logs"
    logs.mkdir(parents=True, exist_ok=True, mode=0o700)
    return logs


def bound(
    program: Sequence[str], environment: Mapping[str, str], output: int
) -> AbstractContextManager["subprocess.Popen[bytes]"]:
    """Run a Python module with its arguments for a block; it ends with this process, even if that is killed."""
    command = [sys.executable, "-m", "tally_dagster.bound", *program]
    return _process(command, environment, output, subprocess.STDOUT, subprocess.PIPE)


@contextmanager
def _process(
    command: Sequence[str], environment: Mapping[str, str], output: int, errors: int, source: int = subprocess.DEVNULL
) -> Iterator["subprocess.Popen[bytes]"]:
    """Run a program in a process group of its own, which is gone when the block ends, however it ends."""
    process = subprocess.Popen(
        command,
        env=environment,
        stdin=source,
        stdout=output,
        stderr=errors,
        start_new_session=True,
    )
    try:
        yield process
    finally:
        _stop(process)


def _stop(process: "subprocess.Popen[bytes]") -> None:
    if process.poll() is None:
        _signal(process, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(STOP_SECONDS)
    _signal(process, signal.SIGKILL)  # also what it started and did not take along
    process.wait()


def _signal(process: "subprocess.Popen[bytes]", number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)


def _wait_for(address: str, processes: Mapping[str, "subprocess.Popen[bytes]"], logs: Path) -> None:
    deadline = time.monotonic() + WEBSERVER_SECONDS
    while True:
        _refuse_ended(processes, logs)
        with suppress(OSError):  # which all errors of requests are
            if _local().get(f"{address}/server_info", timeout=5).ok:
                return
        if time.monotonic() > deadline:
            raise Unavailable(f"the Dagster webserver does not answer at {address}; see {logs / 'webserver.log'}")
        time.sleep(WATCH_SECONDS)


def _refuse_unloaded(address: str, logs: Path) -> None:
    """A webserver also serves a code location that failed to load: as an empty page."""
    answer = _local().post(f"{address}/graphql", json={"query": LOCATIONS}, timeout=WEBSERVER_SECONDS).json()
    for entry in answer["data"]["workspaceOrError"]["locationEntries"]:
        if message := (entry["locationOrLoadError"] or {}).get("message"):
            reason = " ".join(message.split())[:500]
            raise Unavailable(f"the code location does not load: {reason} ({logs / 'webserver.log'})")


def _local() -> "requests.Session":
    import requests  # only `tally up` needs it, and it takes a while

    session = requests.Session()
    session.trust_env = False  # a proxy has no business on the loopback interface
    return session


def _refuse_ended(processes: Mapping[str, "subprocess.Popen[bytes]"], logs: Path) -> None:
    for name, process in processes.items():
        if process.poll() is not None:
            log = logs / f"{name}.log"
            end = f"exit code {process.returncode}: {_last_line(log)}"
            raise Unavailable(f"the Dagster {name} ended with {end} ({log})")


def _refuse_taken(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except (OSError, OverflowError) as error:
            raise InvalidInput(f"TALLY_WEB_PORT={port} cannot be used: {cause(error)}; name another port") from None


def _last_line(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")
