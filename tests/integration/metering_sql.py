"""The way from events to usage without Dagster: the load, a run, and dbt in this process.

What tests use that look at timelines and usage themselves; tests of the whole close go through the job.
"""

import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache, lru_cache
from typing import Any

import pytest
from psycopg.conninfo import make_conninfo

from resources.dbt_runner import invoke
from resources.manifest import manifest_for
from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import runs
from tally.services.counters import Counters
from tally.store.database import Connection

USAGE = "+int_usage_records +int_findings +int_proved_lives"
NOW = datetime(2026, 5, 1, tzinfo=UTC)


def meter(
    reporting: Connection,
    metering: Connection,
    period: str = "2026-03",
    zone: str = "UTC",
    clock: Callable[[], datetime] = lambda: NOW,
    select: str = USAGE,
    counters: Counters | None = None,
) -> Run:
    """Load what has arrived, begin a run of the period and derive what is selected; the run stays running."""
    with runs.metering_lock(metering):
        run = runs.start(reporting, metering, BillingPeriod.parse(period, zone), clock, counters)
        dbt(metering, "run", run, select)
    return run


def compiled_expression(metering: Connection, template: str) -> str:
    """The SQL of a template that calls macros of the project."""
    result = _invoke(metering, "compile", "--inline", template)
    return str(result.results[0].node.compiled_code)


def dbt(metering: Connection, command: str, run: Run, select: str, *options: str) -> None:
    """Run dbt in this process for the database of a connection; the error tells what failed."""
    variables = f"{{run_id: {run.id}, scope: {run.scope}}}"
    _invoke(metering, command, "--select", *select.split(), "--vars", variables, *options)


def _invoke(metering: Connection, *arguments: str) -> Any:
    url = make_conninfo(metering.info.dsn, password=metering.info.password)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TALLY_HOME", _scratch())
        return invoke([*arguments, "--no-write-json"], url, _manifest(url))


@lru_cache(maxsize=4)
def _manifest(url: str) -> Any:
    return manifest_for(url)


@cache
def _scratch() -> str:
    folder = tempfile.TemporaryDirectory(prefix="tally-dbt-")
    _KEPT.append(folder)
    return folder.name


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
