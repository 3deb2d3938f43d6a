"""dbt in this process, by its own programmatic interface: one command, for one database.

A dbt subprocess imports and parses for seconds, three times a month that is closed. Nothing is written into the
checkout: targets and logs lie below TALLY_HOME. What the project is, parsed, belongs in resources/manifest.py.
"""

import hashlib
import inspect
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any

from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Conninfo

from tally.domain.errors import InvalidInput, TallyError
from tally.settings import Settings
from tally.store.database import session

PROJECT = Path(__file__).resolve().parents[1] / "dbt_project"

_OF_PROFILE = {"host", "port", "user", "dbname", "password", "options"}
# What libpq reads from its environment where dbt's profile has no key of its own: TLS, which of several hosts.
_LIBPQ = {
    option.keyword.decode(): option.envvar.decode()
    for option in Conninfo.get_defaults()
    if option.envvar and option.keyword.decode() not in _OF_PROFILE
}
# The frames of `python -m` belong to no module that inspect could find: it would search all of them each time.
inspect.modulesbyfile["<frozen runpy>"] = "runpy"


class DbtError(TallyError):
    """dbt could not parse the project, build a model or pass a test; names it with the database's message."""


def invoke(arguments: Sequence[str], url: str, manifest: Any = None) -> Any:
    """Run a dbt command in this process and return its result.

    Raises:
        DbtError: with what dbt says.
    """
    from dbt.cli.main import dbtRunner

    paths = ["--project-dir", str(PROJECT), "--profiles-dir", str(PROJECT), "--target-path", str(target_path())]
    logging = ["--log-path", str(Settings.from_environment().home / "logs"), "--log-level", "none"]
    quiet = [*logging, "--log-level-file", "info", "--no-use-colors", "--no-send-anonymous-usage-stats"]
    # Only what is there of the schemas that the command is about is looked up beforehand.
    quiet += ["--cache-selected-only"]
    _tell_inspect_of_modules()
    with _environment(profile_environment(url)):
        outcome = dbtRunner(manifest=manifest).invoke([*quiet, *arguments, *paths])
    if outcome.exception is not None:
        raise DbtError(f"dbt {arguments[0]}: {' '.join(str(outcome.exception).split())}")
    if not outcome.success:
        raise DbtError(f"dbt {arguments[0]}: {_first_failure(outcome.result)}")
    return outcome.result


def profile_environment(url: str) -> dict[str, str]:
    """What profiles.yml reads, for a database over TCP or a unix socket (host is then a directory).

    Raises:
        InvalidInput: if the hosts of a URL listen on several ports, of which dbt takes one.
    """
    parts = conninfo_to_dict(url)
    ports = {port or "5432" for port in str(parts.get("port") or "").split(",")}
    if len(ports) > 1:
        raise InvalidInput(f"dbt takes one port for all hosts of a URL, not {', '.join(sorted(ports))}")
    return {
        "DBT_TALLY_HOST": str(parts.get("host") or ""),
        "DBT_TALLY_PORT": ports.pop(),
        "DBT_TALLY_USER": str(parts.get("user") or "postgres"),
        "DBT_TALLY_DBNAME": str(parts["dbname"]),
        "DBT_ENV_SECRET_TALLY_PASSWORD": str(parts.get("password") or ""),
        "PGOPTIONS": session(url),
        "DO_NOT_TRACK": "1",
    } | {variable: str(parts[key]) for key, variable in _LIBPQ.items() if key in parts}


def target_path() -> Path:
    """One directory per content of the project and version of what reads it: nothing in it is ever out of date."""
    digest = hashlib.sha256(sys.version.encode())
    for package in ("dbt-core", "dbt-common", "dbt-adapters", "dbt-postgres"):
        digest.update(version(package).encode())
    for file in sorted([*PROJECT.rglob("*.sql"), *PROJECT.rglob("*.yml")]):
        digest.update(f"{file.relative_to(PROJECT)}\n".encode() + file.read_bytes())
    return Settings.from_environment().home / "dbt" / digest.hexdigest()[:16]


def _tell_inspect_of_modules() -> None:
    """Spare dbt, which asks for the module of every frame on the stack, a look at the files of all modules."""
    import_module("dbt.adapters.postgres")  # which dbt imports only then
    files = {name: getattr(module, "__file__", None) for name, module in sys.modules.copy().items()}
    inspect.modulesbyfile.update({file: name for name, file in files.items() if file})


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
