"""The embedded PostgreSQL starts from nothing, is shared by commands, and survives what kills them."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import create_engine

from tally.domain.errors import InvalidInput, Refused, Unavailable
from tally.store import embedded
from tally.store.embedded import NOBODY, EmbeddedServer, embedded_server

PROGRAM = """
import sys
from pathlib import Path
from tally.store.embedded import embedded_server
with embedded_server(Path(sys.argv[1]), durable=False) as server:
    print("ready", flush=True)
    sys.stdin.readline()
"""


def another_command(home: Path) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def wait_until_ready(command: "subprocess.Popen[str]") -> None:
    assert command.stdout is not None
    assert command.stdout.readline() == "ready\n"


def answers(server: EmbeddedServer) -> bool:
    with suppress(Unavailable, psycopg.OperationalError), psycopg.connect(server.url("postgres")) as connection:
        return connection.execute("select 1").fetchone() == (1,)
    return False


def postmaster(home: Path) -> int:
    return int((home / "postgres/data/postmaster.pid").read_text().splitlines()[0])


def check_again_and_again(server: EmbeddedServer) -> None:
    while True:
        server.check()


@contextmanager
def as_another_account(file: Path) -> Iterator[None]:
    """Let a file be out of reach for a block: root becomes nobody, anybody else loses the right to it."""
    if os.geteuid() == 0:
        os.seteuid(NOBODY)
    else:
        file.chmod(0)
    try:
        yield
    finally:
        os.seteuid(os.getuid())
        file.chmod(0o600)


@pytest.fixture
def stopped(home: Path) -> Path:
    """A home whose server has been made and stopped."""
    with embedded_server(home, durable=False):
        pass
    return home


def test_starts_from_nothing_and_stops(home: Path) -> None:
    """The first user starts a server, and nothing answers after the last one has left."""
    server = EmbeddedServer(home, durable=False)
    assert server.start()
    assert answers(server)
    server.stop()
    assert not answers(server)
    with pytest.raises(Unavailable, match="no embedded PostgreSQL runs"):
        server.url("postgres")


def test_data_stay(stopped: Path) -> None:
    """What was written is there after a restart."""
    with embedded_server(stopped, durable=False) as server, psycopg.connect(server.url("postgres")) as connection:
        connection.execute("create table kept as select 42 as answer")
    with embedded_server(stopped, durable=False) as server, psycopg.connect(server.url("postgres")) as connection:
        assert connection.execute("select answer from kept").fetchone() == (42,)


def test_the_last_to_leave_stops_it(home: Path) -> None:
    """A command that found a server running keeps it after its starter has left."""
    starter, guest = EmbeddedServer(home, durable=False), EmbeddedServer(home, durable=False)
    assert starter.start()
    assert not guest.start()
    starter.stop()
    assert answers(guest)
    guest.stop()
    assert not answers(guest)


def test_two_commands_start_at_once(home: Path) -> None:
    """Commands that start at the same instant share one server."""
    commands = [another_command(home) for _ in range(3)]
    for command in commands:
        wait_until_ready(command)
    assert answers(EmbeddedServer(home))
    for command in commands:
        command.communicate("\n", timeout=60)
        assert command.returncode == 0
    assert not answers(EmbeddedServer(home))


def test_a_killed_command_leaves_a_server_for_the_next(home: Path) -> None:
    """After kill -9 of its only user a server goes on, and the next command takes it over and stops it."""
    command = another_command(home)
    wait_until_ready(command)
    command.kill()
    command.communicate(timeout=60)
    heir = EmbeddedServer(home, durable=False)
    assert not heir.start()
    heir.stop()
    assert not answers(heir)


def test_a_killed_server_is_started_again(home: Path) -> None:
    """After kill -9 of the server its user is told, its stale files do not stand in the way, and no zombie stays."""
    crashed = EmbeddedServer(home, durable=False)
    crashed.start()
    crashed.check()
    killed = postmaster(home)
    os.kill(killed, signal.SIGKILL)
    with pytest.raises(Unavailable, match=r"has ended: .*; start this command again"):
        check_again_and_again(crashed)
    successor = EmbeddedServer(home, durable=False)
    assert successor.start()
    assert answers(successor)
    successor.stop()
    crashed.stop()
    assert not answers(successor)
    assert not Path(f"/proc/{killed}").exists()


def test_a_reused_process_number_is_not_taken_for_the_server(stopped: Path) -> None:
    """After a reboot the number in postmaster.pid may belong to any process."""
    pid_file = stopped / "postgres/data/postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n{stopped / 'postgres/data'}\n0\n5432\n/nowhere\n\n\nready\n")
    server = EmbeddedServer(stopped, durable=False)
    assert server.start()
    server.stop()


def test_an_interrupted_initdb_is_done_again(home: Path) -> None:
    """A draft of data is never taken for data."""
    with embedded_server(home, durable=False):
        pass
    (home / "postgres/data").rename(home / "postgres/data.new")
    with embedded_server(home, durable=False) as server:
        assert answers(server)


@pytest.mark.parametrize("name", ["long" * 30, "a comma, a space and a 'quote'"])
def test_any_path_will_do(home: Path, name: str) -> None:
    """A path that is too long for a socket, or reads like a list of hosts, gets a socket elsewhere."""
    with embedded_server(home / name, durable=False) as server:
        assert answers(server)
        socket = Path(str(psycopg.conninfo.conninfo_to_dict(server.url("postgres"))["host"]))
        assert socket.stat().st_mode & 0o777 == 0o700
    assert not socket.exists()


def test_a_path_that_initdb_cannot_quote_is_refused(home: Path) -> None:
    """The message names the character."""
    with pytest.raises(InvalidInput, match=r"holds \$"):
        EmbeddedServer(home / "a$b").start()


def test_data_of_another_version_are_refused(stopped: Path) -> None:
    """The programs of one major version never touch the data of another."""
    (stopped / "postgres/data/PG_VERSION").write_text("15\n")
    with pytest.raises(Refused, match="its data are of version 15"):
        EmbeddedServer(stopped).start()


def test_a_server_that_cannot_start_says_why(stopped: Path) -> None:
    """The error holds the end of the log."""
    (stopped / "postgres/data/postgresql.conf").write_text("nonsense = 1\n")
    with pytest.raises(Unavailable, match=r"does not start: .*nonsense"):
        EmbeddedServer(stopped).start()


def test_of_a_log_the_fault_is_told_and_not_what_was_cleared_up_after_it(home: Path) -> None:
    """As initdb leaves it on a disk that is full: its last line is of what it takes away."""
    server = EmbeddedServer(home)
    (home / "postgres").mkdir()
    (home / "postgres/postgres.log").write_text(
        "running bootstrap script ... ok\n"
        'FATAL:  could not write to file "base/4/2617": No space left on device\n'
        "child process exited with exit code 1\n"
        "initdb: removing contents of data directory\n"
    )
    with pytest.raises(Unavailable, match=r"No space left on device; start this command again$"):
        server.check()


def test_a_home_of_another_account_is_refused(stopped: Path) -> None:
    """The message names the directory, and what to do."""
    refused = pytest.raises(Unavailable, match=rf"^TALLY_HOME {stopped} belongs to another account: run tally as")
    with as_another_account(stopped / "postgres.lock"), refused:
        EmbeddedServer(stopped).start()


def test_settings_of_an_installation(home: Path) -> None:
    """Durable, in UTF-8 by code point, without TCP and JIT."""
    names = ("fsync", "synchronous_commit", "full_page_writes", "listen_addresses", "jit", "server_encoding")
    with embedded_server(home) as server, psycopg.connect(server.url("postgres")) as connection:
        values = [connection.execute("select current_setting(%s)", [name]).fetchone() for name in names]
        assert [value and value[0] for value in values] == ["on", "on", "on", "", "off", "UTF8"]
        assert connection.execute("select 'Z' < 'a', upper('ä')").fetchone() == (True, "Ä")


def test_sqlalchemy_takes_the_url(home: Path) -> None:
    """The orchestrator and the checks reach the server by the same URL with a driver named."""
    with embedded_server(home, durable=False) as server:
        url = server.url("postgres").replace("postgresql://", "postgresql+psycopg2://")
        engine = create_engine(url)
        with engine.connect() as connection:
            assert connection.exec_driver_sql("select 1").scalar() == 1
        engine.dispose()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root has to drop its rights")
class TestAsRoot:
    """PostgreSQL refuses root."""

    def test_the_server_has_no_rights(self, home: Path) -> None:
        """It runs as nobody, and its data are for nobody else."""
        with embedded_server(home, durable=False):
            assert Path(f"/proc/{postmaster(home)}").stat().st_uid == embedded.NOBODY
        assert (home / "postgres/data").stat().st_mode & 0o777 == 0o700
        assert (home / "postgres").stat().st_mode & 0o007 == 0

    def test_a_home_that_nobody_can_enter_stays_closed(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The data go elsewhere, with a link to them, and the modes of the home's directories do not change."""
        monkeypatch.setattr(embedded, "ELSEWHERE", home / "elsewhere")
        closed = home / "closed"
        closed.mkdir(mode=0o700)
        with embedded_server(closed / "tally", durable=False) as server:
            assert answers(server)
        assert closed.stat().st_mode & 0o777 == 0o700
        assert (closed / "tally/postgres").resolve().parent == home / "elsewhere"
        with embedded_server(closed / "tally", durable=False) as server:
            assert answers(server)
        assert len(list((home / "elsewhere").iterdir())) == 1

    def test_a_lost_link_target_is_refused(self, home: Path) -> None:
        """Lost data are reported, not silently made anew."""
        (home / "postgres").symlink_to(home / "gone")
        with pytest.raises(Unavailable, match="which is gone"):
            EmbeddedServer(home).start()

    def test_data_of_an_ordinary_user_keep_their_owner(self, home: Path) -> None:
        """Root uses an ordinary user's data as that user."""
        with embedded_server(home, durable=False):
            pass
        other = 65533
        for path in [home / "postgres/data", *(home / "postgres/data").rglob("*"), home / "postgres/run"]:
            os.chown(path, other, other)
        (home / "postgres").chmod(0o755)
        with embedded_server(home, durable=False) as server:
            assert answers(server)
            assert Path(f"/proc/{postmaster(home)}").stat().st_uid == other
