"""The way from events to usage without Dagster: the load, a run, and dbt in this process.

What tests use that look at timelines and usage themselves; tests of the whole close go through the job.
"""

import os
import tempfile
from collections.abc import Callable
from contextlib import redirect_stdout
from datetime import UTC, datetime
from functools import cache
from io import StringIO
from pathlib import Path
from urllib.parse import unquote

import psycopg
from dbt.cli.main import dbtRunner
from dbt.contracts.graph.manifest import Manifest

from tally.domain.period import BillingPeriod
from tally.domain.run import Run
from tally.services import runs
from tally.services.counters import Counters
from tally.store.database import Connection

PROJECT = Path(__file__).parents[2] / "dbt_project"
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
    os.environ.update(_environment(metering))
    with redirect_stdout(StringIO()):
        result = _runner(metering.info.dbname).invoke(["compile", "--inline", template, "--quiet", *_places()])
    assert result.success, result.exception
    return str(result.result.results[0].node.compiled_code)  # type: ignore[union-attr]


def dbt(metering: Connection, command: str, run: Run, select: str, *options: str) -> None:
    """Run dbt in this process for the database of a connection; the assertion tells what failed."""
    os.environ.update(_environment(metering))
    arguments = [
        command, "--select", *select.split(), "--vars", f"{{run_id: {run.id}, scope: {run.scope}}}", "--quiet",
        *options, *_places(),
    ]
    result = _runner(metering.info.dbname).invoke(arguments)
    results = getattr(result.result, "results", ())
    failed = [f"{r.node.name}: {r.message}" for r in results if r.status not in ("success", "pass")]
    assert result.success, failed or result.exception


def _environment(metering: Connection) -> dict[str, str]:
    parts = psycopg.conninfo.conninfo_to_dict(metering.info.dsn)
    return {
        "DBT_TALLY_HOST": str(parts.get("host", "localhost")),
        "DBT_TALLY_PORT": str(parts.get("port", 5432)),
        "DBT_TALLY_USER": str(parts.get("user", "postgres")),
        "DBT_TALLY_DBNAME": str(parts["dbname"]),
        "DBT_ENV_SECRET_TALLY_PASSWORD": unquote(metering.info.password or ""),
        "DBT_SEND_ANONYMOUS_USAGE_STATS": "false",
        "DO_NOT_TRACK": "1",
    }


@cache
def _runner(database: str) -> dbtRunner:
    """A runner that parses the project once for a database: the manifest names it in every relation."""
    assert os.environ["DBT_TALLY_DBNAME"] == database
    parsed = dbtRunner().invoke(["parse", "--quiet", *_places()])
    assert isinstance(parsed.result, Manifest), parsed.exception
    return dbtRunner(manifest=parsed.result)


def _places() -> list[str]:
    return [
        "--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT),
        "--target-path", _scratch(), "--log-path", _scratch(),
    ]


@cache
def _scratch() -> str:
    folder = tempfile.TemporaryDirectory(prefix="tally-dbt-")
    _KEPT.append(folder)
    return folder.name


_KEPT: list[tempfile.TemporaryDirectory[str]] = []
