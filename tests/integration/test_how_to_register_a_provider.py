"""The how-to for a new provider is run as it is written, in one session of bash, and its answers are compared.

A block of `sh` is run; a block of `json` or `text` that follows shows its answer, shortened: objects may have other
keys besides, text may have other lines.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.conftest import REPOSITORY
from tests.integration.api_process import PATIENCE_SECONDS, free_port

PAGE = REPOSITORY / "docs/how-to/register-a-provider.md"
_FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Step(NamedTuple):
    """Commands, and the answer that is shown below them."""

    commands: str
    language: str  # of the answer; empty where none is shown
    answer: str


def steps(page: str) -> Iterator[Step]:
    """Yield the blocks of commands, in their order."""
    blocks = [*_FENCED.findall(page), ("", "")]
    for (language, text), (following, answer) in pairwise(blocks):
        if language == "sh":
            shown = following in {"json", "text"}
            yield Step(text, following if shown else "", answer if shown else "")


def session(blocks: Sequence[Step], folder: Path) -> str:
    """Return a script that runs them in one shell, until one fails, and keeps what each says in a file of its own."""
    parts = [f"echo {n} > {folder}/step\n{{\n{step.commands}}} > {folder}/{n}.out\n" for n, step in enumerate(blocks)]
    return "set -euo pipefail\n" + "".join(parts) + f"echo done > {folder}/step\n"


def documents(text: str) -> list[Any]:
    """Read JSON documents that follow each other."""
    decoder, found = json.JSONDecoder(parse_float=Decimal, parse_int=Decimal), []
    text = text.strip()
    while text:
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def shows(shown: Any, said: Any) -> bool:
    """Whether an answer is what is shown of it."""
    if isinstance(shown, dict):
        return isinstance(said, dict) and all(key in said and shows(shown[key], said[key]) for key in shown)
    if isinstance(shown, list):
        return isinstance(said, list) and len(shown) == len(said) and all(map(shows, shown, said))
    return bool(shown == said)


def lines(text: str) -> list[str]:
    """The lines of a text, blanks made one."""
    return [" ".join(line.split()) for line in text.splitlines()]


def check(step: Step, said: str) -> None:
    """Hold what was said to what is shown."""
    if step.language == "json":
        assert shows(documents(step.answer), documents(said)), f"{step.commands}\nshown: {step.answer}\nsaid: {said}"
    else:
        missing = [line for line in lines(step.answer) if line not in lines(said)]
        assert missing == [], f"{step.commands}\nsaid: {said}"


def environment(home: Path) -> dict[str, str]:
    """A user who has nothing but the repository, its virtual environment, and a port that is free."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("TALLY_")}
    path = os.pathsep.join([str(Path(sys.executable).parent), kept["PATH"]])
    settings = {"TALLY_API_PORT": str(free_port()), "TALLY_API_WORKERS": "1"}
    return kept | settings | {"HOME": str(home), "PATH": path, "no_proxy": "127.0.0.1"}


def run(script: str, home: Path, log: Path) -> int:
    """Run a script in bash and return its exit code; what it says besides is in ``log``. Nothing of it is left."""
    with log.open("w", encoding="utf-8") as besides:  # not a pipe: a server that is left over would hold it open
        process = subprocess.Popen(
            ["/usr/bin/env", "bash", "-c", script],
            cwd=REPOSITORY,
            env=environment(home),
            stdin=subprocess.DEVNULL,
            stdout=besides,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(5 * PATIENCE_SECONDS)
    finally:
        stop(process.pid)
        process.wait()


def stop(group: int) -> None:
    """End a group of processes: the server stops its PostgreSQL, if it is let."""
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGTERM)
        for _ in range(PATIENCE_SECONDS):
            os.killpg(group, 0)
            time.sleep(1)
        os.killpg(group, signal.SIGKILL)


@pytest.mark.slow
def test_a_newcomer_can_follow_it(home: Path, tmp_path: Path) -> None:
    """From nothing to the bill of a platform that Tally did not know; each command succeeds, and says what is shown."""
    blocks = list(steps(PAGE.read_text(encoding="utf-8")))
    assert len(blocks) > 15
    status = run(session(blocks, tmp_path), home, tmp_path / "log")
    reached = (tmp_path / "step").read_text(encoding="utf-8").strip()
    for number, step in enumerate(blocks):
        if str(number) == reached:
            break
        check(step, (tmp_path / f"{number}.out").read_text(encoding="utf-8"))
    said = (tmp_path / "log").read_text(encoding="utf-8")
    assert (status, reached) == (0, "done"), f"{said}\nat step {reached}: exit code {status}"


@pytest.mark.parametrize(
    ("language", "answer"),
    [
        ("json", '{"total": 56.21}'),
        ("json", '{"cloud": "pve-lab"}'),
        ("json", '{"items": [{}]}'),
        ("json", '{"total": 56.20} {"total": 56.20}'),
        ("text", "loaded price version: 2026-07"),
    ],
)
def test_an_answer_that_is_not_so_is_seen(language: str, answer: str) -> None:
    """A value that differs, one that is missing, a list of another length, one answer for two, another line."""
    said = {"json": '{"total": 56.20, "items": []}\n', "text": "loaded price version: 2026-06\n"}[language]
    with pytest.raises(AssertionError):
        check(Step("tally bill 2026-06", language, answer), said)


def test_an_answer_may_say_more_than_is_shown() -> None:
    """Keys that change from run to run, and lines before and after."""
    check(Step("", "json", '{"total": 56.2, "items": [{"id": 1}]}'), '{"items":[{"id":1,"at":"now"}],"total":56.20}')
    check(Step("", "text", "a b\n"), "x\na   b\ny\n")
    check(Step("", "", ""), "whatever")
