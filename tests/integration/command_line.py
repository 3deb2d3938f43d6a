"""The command line in this process, and as the program it is: the words of the tests of commands."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import NamedTuple

import pytest

from tally.cli import main

TALLY = Path(sys.executable).with_name("tally")
PATIENCE = 600  # seconds; only what hangs needs them


class Done(NamedTuple):
    """What a command left."""

    status: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line on stderr."""
        lines = self.err.splitlines()
        assert len(lines) == 1, self.err
        assert lines[0].startswith("tally: ")
        return lines[0]


Tally = Callable[..., Done]


def environment(**changes: str) -> dict[str, str]:
    """The environment of this process with these settings of Tally, and no others."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    return clean | changes


def run(variables: Mapping[str, str], *arguments: str | Path, stdin: bytes = b"") -> Done:
    """Run a command as the program does, but in this process: a program takes longer to start than most commands."""
    out, err = TextIOWrapper(BytesIO(), write_through=True), TextIOWrapper(BytesIO(), write_through=True)
    with (
        _called(variables, "tally", *map(str, arguments), stdin=stdin),
        redirect_stdout(out),
        redirect_stderr(err),
        pytest.raises(SystemExit) as ended,
    ):
        main()
    told, complained = (stream.detach().getvalue() for stream in (out, err))  # type: ignore[attr-defined]
    return _done(int(str(ended.value.code)), told, complained)


def program(variables: Mapping[str, str], *arguments: str | Path, stdin: bytes = b"") -> Done:
    """Run a command as a program of its own."""
    command = [TALLY, *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, env=variables, check=False, timeout=PATIENCE)
    return _done(done.returncode, done.stdout, done.stderr)


@contextmanager
def _called(variables: Mapping[str, str], *argv: str, stdin: bytes) -> Iterator[None]:
    """Let this process have been started like that."""
    terminated = signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", list(argv))
        patch.setattr(sys, "stdin", TextIOWrapper(BytesIO(stdin)))
        for name in os.environ.keys() - variables.keys():
            patch.delenv(name)
        for name, value in variables.items():
            patch.setenv(name, value)
        yield
    signal.signal(signal.SIGTERM, terminated)


def _done(status: int, out: bytes, err: bytes) -> Done:
    return Done(status, out.decode("utf-8", "surrogateescape"), err.decode())


def processes_that_name(text: str) -> list[str]:
    """Command lines and environments of running processes that hold ``text``."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
        except OSError:
            continue
        if text.encode() in told:
            found.append(told.decode(errors="replace"))
    return found
