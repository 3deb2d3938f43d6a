"""Great Expectations as a program of its own: ``python -m resources.validation``.

It reads requests from standard input, one JSON document a line: the ``url`` of a database, with what its sessions are
set to, and ``queries`` for violating rows by name. Each is answered in one line: ``verdicts`` in the order of the
queries, or an ``error``. It ends with its input, in the middle of whatever it does, so that it never outlives who
started it.

Nothing is imported here that Dagster or dbt need: who asks belongs in resources/expectations.py.
"""

import gc
import importlib.machinery
import importlib.util
import os
import signal
import sys
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from importlib.abc import MetaPathFinder
from queue import SimpleQueue
from tempfile import TemporaryFile
from typing import IO, Any

import psycopg2
import simplejson

# What Great Expectations imports for expectations of distributions, which no invariant is: a third of its memory.
_POSTPONED = frozenset({"altair", "scipy.stats"})
# What pandas, Great Expectations and requests import if it is there.
_LEFT_OUT = ("pyarrow", "boto3", "botocore", "charset_normalizer")

_SESSIONS = 2
_VIOLATIONS = """
    create temporary table violations (
        invariant text, cloud text collate "C", resource_type text collate "C", subject text collate "C",
        detail text collate "C"
    )"""
_NAMELESS = "postgresql+psycopg2://tally@localhost/tally"


def main() -> int:
    """Answer until standard input ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever is interrupted closes the input
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints, prints into the log
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=_read, args=[lines], daemon=True).start()
    _import_lean()
    while True:
        answers.write(simplejson.dumps(_answer(simplejson.loads(lines.get())), default=str) + "\n")
        answers.flush()


def validate(url: str, queries: Mapping[str, str]) -> list[dict[str, Any]]:
    """Judge all queries in one validation: name, number of violations and the first violating rows of each.

    The batch is a temporary table of everything that was found, so that each query runs only once: Great Expectations
    evaluates an expectation twice, for the rows and for their number.
    """
    import great_expectations as gx
    from great_expectations.data_context.types.base import ProgressBarsConfig
    from great_expectations.expectations.core.unexpected_rows_expectation import UnexpectedRowsExpectation

    found = _find_all(url, queries)
    connections: list[Any] = []

    def connect() -> Any:
        connections.append(psycopg2.connect(url))
        _keep(connections[-1], found)
        return connections[-1]

    context = gx.get_context(mode="ephemeral")
    context.variables.progress_bars = ProgressBarsConfig(globally=False)
    # It takes connections, not the URL: that may name a socket, which it refuses, and holds the password.
    source = context.data_sources.add_postgres(
        "metering",
        connection_string=_NAMELESS,
        create_temp_table=False,
        kwargs={"creator": connect},  # type: ignore[call-arg]
    )
    asset = source.add_query_asset("violations", query="select * from violations")
    batch = asset.add_batch_definition_whole_table("of the run")
    suite = gx.ExpectationSuite(
        name="invariants",
        expectations=[
            UnexpectedRowsExpectation(
                unexpected_rows_query="select cloud, resource_type, subject, detail from {batch} "
                f"where invariant = '{name}' order by cloud, resource_type, subject, detail",
                meta={"name": name},
            )
            for name in queries
        ],
    )
    context.suites.add(suite)
    validation = gx.ValidationDefinition(name="run", data=batch, suite=suite)
    context.validation_definitions.add(validation)
    try:
        outcome = validation.run(result_format="COMPLETE")
    finally:
        # Great Expectations would keep them, and what was found in them, as long as the process lives.
        for kept in (*connections, *found):
            kept.close()
    verdicts = {verdict["name"]: verdict for verdict in map(_verdict, outcome.results)}
    return [verdicts[name] for name in queries]


def _answer(request: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"verdicts": validate(request["url"], request["queries"])}
    except Exception as error:  # noqa: BLE001 - who asked decides what it means
        return {"error": f"{type(error).__name__}: {' '.join(str(error).split())}"}


def _find_all(url: str, queries: Mapping[str, str]) -> list[IO[bytes]]:
    """Run each query by itself, two at once: what no parallel plan is found for leaves the other core to another."""
    with ThreadPoolExecutor(_SESSIONS) as threads:
        return list(threads.map(partial(_find, url), queries, queries.values()))


def _find(url: str, name: str, query: str) -> IO[bytes]:
    found = TemporaryFile()  # noqa: SIM115 - who judges it closes it; it may be of every record of a month
    rows = f"select '{name}', cloud, resource_type, subject, detail from (\n{query}\n) as violations"
    with closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        cursor.copy_expert(f"copy ({rows}) to stdout", found)
    return found


def _keep(connection: Any, found: Sequence[IO[bytes]]) -> None:
    with connection, connection.cursor() as cursor:
        cursor.execute(_VIOLATIONS)
        for rows in found:
            rows.seek(0)
            cursor.copy_expert("copy violations from stdin", rows)


def _verdict(result: Any) -> dict[str, Any]:
    if result.exception_info and "exception_message" in str(result.exception_info) and not result.result:
        raise RuntimeError(str(result.exception_info))
    rows = (result.result.get("details") or {}).get("unexpected_rows") or ()
    return {
        "name": result.expectation_config.meta["name"],
        "violations": int(result.result["observed_value"]),
        "first_rows": [dict(row) for row in rows],
    }


def _read(lines: "SimpleQueue[str]") -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _import_lean() -> None:
    os.environ["GX_ANALYTICS_ENABLED"] = "false"
    sys.modules |= dict.fromkeys(_LEFT_OUT)  # type: ignore[arg-type]  # None: it is not there
    sys.meta_path.insert(0, _Postponing())
    gc.disable()  # what is imported stays, and there is much of it
    import great_expectations  # noqa: F401

    gc.freeze()
    gc.enable()


class _Postponing(MetaPathFinder):
    """Finds modules that are loaded only once something of them is asked for."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: Any = None) -> Any:
        if name not in _POSTPONED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = importlib.util.LazyLoader(spec.loader)
        return spec


if __name__ == "__main__":
    sys.exit(main())
