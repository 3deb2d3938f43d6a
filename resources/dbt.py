"""dbt: the project, its manifest for the definitions, and the runs of its models.

dbt runs in this process, through its own programmatic interface: a dbt subprocess imports and parses for seconds, three
times a month that is closed. Nothing is written into the checkout: targets and logs lie below TALLY_HOME.
"""

import fcntl
import hashlib
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import simplejson
from dagster import ConfigurableResource, ResourceDependency
from psycopg.conninfo import conninfo_to_dict
from pydantic import PrivateAttr

from resources.databases import Databases
from tally.domain.errors import TallyError
from tally.settings import Settings

PROJECT = Path(__file__).resolve().parents[1] / "dbt_project"

# What libpq reads from its environment where dbt's profile has no key of its own.
_LIBPQ = {"sslmode": "PGSSLMODE", "sslrootcert": "PGSSLROOTCERT", "sslcert": "PGSSLCERT", "sslkey": "PGSSLKEY"}
# dbt asks inspect for the module of every frame on the stack, once for each of its flags and runs. The frames of
# `python -m` belong to none that inspect knows, and it would search all modules each time: a third of dbt's time.
inspect.modulesbyfile["<frozen runpy>"] = "runpy"

_NOWHERE = "postgresql://nobody@localhost:5432/nowhere"


class DbtError(TallyError):
    """dbt could not parse the project, build a model or pass a test; names it with the database's message."""


@dataclass(frozen=True, slots=True)
class ModelResult:
    """What building one model came to."""

    name: str
    rows: int | None  # None for a view
    seconds: float


class Dbt(ConfigurableResource):  # type: ignore[type-arg]
    """Builds models in the metering database."""

    databases: ResourceDependency[Databases]
    _manifest: Any = PrivateAttr(default=None)

    def run(self, models: Sequence[str], variables: Mapping[str, str], command: str = "run") -> list[ModelResult]:
        """Build models, with ``command="build"`` also testing their data.

        Raises:
            DbtError: naming the first model or test that failed.
        """
        url = self.databases.metering()
        # Parsed once per run: variables are read when a model is compiled, not when it is parsed.
        self._manifest = self._manifest or parse(url, write=False)
        selection = ["--select", *models, "--vars", simplejson.dumps(dict(variables))]
        if command == "build":
            # Tests of views that read every month whole have a tag of their own: a close does not wait for them.
            selection += ["--exclude-resource-type", "unit_test", "--exclude", "tag:whole_months"]
        outcome = invoke([command, *selection, "--no-write-json"], url, self._manifest)
        return [
            ModelResult(result.node.name, _rows(result.adapter_response), result.execution_time)
            for result in outcome.results
            if result.node.resource_type == "model"
        ]


def manifest_path() -> Path:
    """The manifest of the project as it is now, prepared if there is none yet."""
    target = _target()
    target.mkdir(parents=True, exist_ok=True)
    with (target / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (target / "manifest.json").exists():
            parse(_NOWHERE, write=True)
    return target / "manifest.json"


def parse(url: str, *, write: bool) -> Any:
    """Parse the project for a database; the manifest names it in every relation. No connection is opened."""
    return invoke(["parse", "--write-json" if write else "--no-write-json"], url)


def invoke(arguments: Sequence[str], url: str, manifest: Any = None) -> Any:
    """Run a dbt command in this process and return its result.

    Raises:
        DbtError: with what dbt says.
    """
    from dbt.cli.main import dbtRunner

    paths = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target-path", str(_target())]
    logging = ["--log-path", str(Settings.from_environment().home / "logs"), "--log-level", "none"]
    quiet = [*logging, "--log-level-file", "info", "--no-use-colors", "--no-send-anonymous-usage-stats"]
    with _environment(profile_environment(url)):
        outcome = dbtRunner(manifest=manifest).invoke([*quiet, *arguments, *paths])
    if outcome.exception is not None:
        raise DbtError(f"dbt {arguments[0]}: {' '.join(str(outcome.exception).split())}")
    if not outcome.success:
        raise DbtError(f"dbt {arguments[0]}: {_first_failure(outcome.result)}")
    return outcome.result


def profile_environment(url: str) -> dict[str, str]:
    """What profiles.yml reads, for a database over TCP or a unix socket (host is then a directory)."""
    parts = conninfo_to_dict(url)
    return {
        "DBT_TALLY_HOST": str(parts.get("host") or ""),
        "DBT_TALLY_PORT": str(parts.get("port") or 5432),
        "DBT_TALLY_USER": str(parts.get("user") or "postgres"),
        "DBT_TALLY_DBNAME": str(parts["dbname"]),
        "DBT_ENV_SECRET_TALLY_PASSWORD": str(parts.get("password") or ""),
        "DO_NOT_TRACK": "1",
    } | {variable: str(parts[key]) for key, variable in _LIBPQ.items() if key in parts}


def _target() -> Path:
    """One directory per content of the project and version of dbt: a manifest in it is never out of date."""
    digest = hashlib.sha256(version("dbt-core").encode())
    for file in sorted([*PROJECT.rglob("*.sql"), *PROJECT.rglob("*.yml")]):
        digest.update(f"{file.relative_to(PROJECT)}\n".encode() + file.read_bytes())
    return Settings.from_environment().home / "dbt" / digest.hexdigest()[:16]


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    former = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in former.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _first_failure(outcome: Any) -> str:
    failed = [result for result in outcome.results if result.status in ("error", "fail", "runtime error")]
    if not failed:
        return "failed without a reason; see dbt.log"
    return f"{failed[0].node.name}: {' '.join(str(failed[0].message).split())}"


def _rows(response: Mapping[str, Any]) -> int | None:
    rows = response.get("rows_affected")
    return int(rows) if isinstance(rows, int) and rows >= 0 else None
