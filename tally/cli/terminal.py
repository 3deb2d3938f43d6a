"""How the command line meets the operating system: files, progress, signals, errors, who is acting."""

import errno
import getpass
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import psycopg
import typer
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from tally.domain.errors import InvalidEvent, InvalidInput, TallyError, cause
from tally.domain.event import decode_json

INTERRUPTED = 130


class PlainConsole(Console):
    """A console that shows what names hold and obeys none of it: neither markup nor :emoji: nor control characters.

    Names come from platforms and collectors: one that clears the screen or turns the line around would forge a table.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def print(self, *objects: Any, **options: Any) -> None:
        """Print texts as they are read, other things as rich has them."""
        super().print(*(visible(each) if isinstance(each, str) else each for each in objects), **options)

    def out(self, *objects: Any, **_options: Any) -> None:
        """Print a document for programs, which is as long, and as many lines, as it is."""
        super().print(*objects, no_wrap=True, overflow="ignore", crop=False)


def visible(text: str) -> str:
    r"""Write what cannot be seen in a text by its escape, such as \x1b or \n, so that a text is one line."""
    return "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)


def out() -> Console:
    """Standard output; where it is no terminal, lines are as long as they are."""
    return PlainConsole(width=None if sys.stdout.isatty() else 250)


def err() -> Console:
    """Standard error."""
    return PlainConsole(stderr=True)


def now() -> datetime:
    """The present, by the clock of the machine."""
    return datetime.now(UTC)


def actor() -> str:
    """Name the operating system user, or its number where it has no name."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return f"uid {os.getuid()}"


def json_object(text: str) -> dict[str, Any]:
    """Read the value of --metadata."""
    try:
        value = decode_json(os.fsencode(text))
    except InvalidEvent as error:
        raise typer.BadParameter(f"--metadata {text[:60]!r} is no JSON object: {error.detail}") from None
    if not isinstance(value, dict):
        raise typer.BadParameter(f"--metadata {text[:60]!r} is no JSON object")
    return value


@contextmanager
def opened(name: str) -> Iterator[BinaryIO]:
    """A file to read, found out to be readable before anything is done."""
    if name == "-":
        if sys.stdin is None:
            raise InvalidInput("- is standard input, which is closed; name files or pipe events into tally")
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            if Path(name).is_dir():
                raise InvalidInput(f"{name} is a directory; name its files")
            stream = stack.enter_context(Path(name).open("rb"))
        except (OSError, ValueError) as error:
            raise InvalidInput(f"{name} cannot be read: {cause(error)}") from None
        yield stream


@contextmanager
def readable(name: str) -> Iterator[None]:
    """Name the file in whatever goes wrong while it is read."""
    try:
        yield
    except OSError as error:
        raise InvalidInput(f"{name} cannot be read to its end: {cause(error)}") from None
    except InvalidInput as error:
        raise InvalidInput(f"{name}: {error}") from None


@contextmanager
def progress(name: str, stream: BinaryIO) -> Iterator[Any]:
    """A bar by bytes on stderr where that is a terminal; without a known size it counts only."""
    total = None
    with suppress(OSError, ValueError):
        total = os.fstat(stream.fileno()).st_size or None
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(visible(Path(name).name), total=total)

        def advance() -> None:
            with suppress(OSError, ValueError):
                bar.update(task, completed=stream.tell())

        yield advance


@contextmanager
def counting(what: str, total: int) -> Iterator[Callable[[int], object]]:
    """A bar by number on stderr where that is a terminal; what it gives is told how many more are done."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=err(), disable=not sys.stderr.isatty(), transient=True) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)


def open_outputs() -> None:
    """Let an output that is closed, as services may have it, lead nowhere: else the next file would take its number."""
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), number)
            setattr(sys, name, os.fdopen(number, "w", encoding="utf-8"))


def drop_unwritten() -> None:
    """Give up what standard output would not take: at its end Python would try it again, and tell of that."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def refuse_empty(arguments: Sequence[str]) -> None:
    """Refuse what an empty variable of a shell leaves: many an option without a name means all that there are."""
    for before, argument in pairwise(arguments):
        if not argument:
            raise InvalidInput(f"what follows {Path(before).name} is empty; name it, or leave the option out")
        if argument.startswith("--") and argument.endswith("="):
            raise InvalidInput(f"what follows {argument} is empty; name it, or leave the option out")


def terminated(number: int, _frame: object) -> None:
    """Leave like after Ctrl-C, so that what was started is stopped."""
    signal.signal(number, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _command(error: BaseException) -> str:
    context = getattr(error, "ctx", None)
    return context.command_path if context else "tally"


def report(error: BaseException) -> int:
    """Say what went wrong in one line and return the exit code."""
    if isinstance(error, SystemExit):
        return error.code if isinstance(error.code, int) else 1
    if isinstance(error, BrokenPipeError):
        return 1
    usage = getattr(error, "format_message", None)  # of typer's errors of usage
    status, text = 1, " ".join(str(error).split())
    if usage is not None:
        told = " ".join(usage().split()).replace(": Value error, ", ": ")  # as pydantic begins, who reads for typer
        status, text = 2, f"{told} (see {_command(error)} --help)"
    elif isinstance(error, KeyboardInterrupt | typer.Abort):
        status, text = INTERRUPTED, "interrupted"
    elif isinstance(error, InvalidInput):
        status = 2
    elif isinstance(error, psycopg.Error):
        text = f"the database refused: {text}"
    elif isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):  # on an output, it names no file
        text = ": ".join(filter(None, (error.filename, error.strerror, "make room, then try it again")))
    elif isinstance(error, OSError) and error.filename:
        text = f"{error.filename}: {error.strerror or text}"
    elif not isinstance(error, TallyError):
        place = traceback.extract_tb(error.__traceback__)[-1]
        text = f"unexpected {type(error).__name__} at {Path(place.filename).name}:{place.lineno}: {text}"
    with suppress(OSError):
        sys.stderr.write(f"tally: {visible(text)}\n")
    return status
