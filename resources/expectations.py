"""Great Expectations, asked for several invariants of a run at once, in a process of its own.

Its import takes seconds and much memory: it happens beside the first steps of a run, and is done once for all runs of
this process. What the invariants are belongs in tally.store.metering.checks; what that process does, in validation.py.
"""

import atexit
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any

import simplejson
from dagster import ConfigurableResource, InitResourceContext, ResourceDependency

from resources.databases import Databases
from tally.domain.errors import Unavailable
from tally.store.database import conninfo

STOP_SECONDS = 5
# What is checked was written just now and lies in memory: in the order of an index it needs no sort.
_SESSION = {"application_name": "tally-checks", "random_page_cost": "1.1"}


@dataclass(frozen=True, slots=True)
class Verdict:
    """What Great Expectations found out about one invariant."""

    name: str
    violations: int
    first_rows: Sequence[Mapping[str, Any]]  # cloud, resource_type, subject, detail

    @property
    def passed(self) -> bool:
        """Whether the invariant holds."""
        return self.violations == 0


class Expectations(ConfigurableResource):  # type: ignore[type-arg]
    """Validates queries for violating rows against the metering database; nothing is expected to be found."""

    databases: ResourceDependency[Databases]

    def setup_for_execution(self, context: InitResourceContext) -> None:  # noqa: ARG002
        """Start the process, as a run begins: it imports while the first steps wait for the database."""
        validator()

    def validate_queries(self, queries: Mapping[str, str]) -> list[Verdict]:
        """Run all queries in one validation; each yields cloud, resource_type, subject, detail of what violates it.

        Raises:
            RuntimeError: with what Great Expectations or the database says.
            Unavailable: if the process has ended.
        """
        url = conninfo(self.databases.metering(), **_SESSION)
        answer = validator().ask({"url": url, "queries": dict(queries)})
        if "error" in answer:
            raise RuntimeError(answer["error"])
        return [Verdict(**verdict) for verdict in answer["verdicts"]]


class Validator:
    """The process of Great Expectations: answers one request after the other, until it is stopped or this one ends."""

    def __init__(self) -> None:
        self._asking = Lock()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - stop closes it
        self.process = subprocess.Popen(
            [sys.executable, "-m", "resources.validation"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=os.environ | {"PYTHONWARNINGS": "ignore"},
            text=True,
            encoding="utf-8",
        )
        atexit.register(self.stop)

    @property
    def runs(self) -> bool:
        """Whether it can be asked."""
        return self.process.poll() is None

    def ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """Pass a request on and wait for its answer.

        Raises:
            Unavailable: if the process ends without one.
        """
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        with self._asking, suppress(BrokenPipeError):
            self.process.stdin.write(simplejson.dumps(request) + "\n")
            self.process.stdin.flush()
            if answer := self.process.stdout.readline():
                told: dict[str, Any] = simplejson.loads(answer)
                return told
        raise Unavailable(f"Great Expectations ended with exit code {self.process.wait()}: {self._last_words()}")

    def stop(self) -> None:
        """End the process, whatever it does."""
        atexit.unregister(self.stop)
        for end in (self.process.stdin, self.process.stdout):
            if end is not None:
                with suppress(BrokenPipeError):
                    end.close()
        try:
            self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._log.close()

    def _last_words(self) -> str:
        self._log.seek(0)
        lines = self._log.read().decode("utf-8", "replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def validator() -> Validator:
    """The process that serves this one; another is started if it has ended."""
    running = _validator()
    if not running.runs:
        running.stop()
        _validator.cache_clear()
        running = _validator()
    return running


@cache
def _validator() -> Validator:
    return Validator()
