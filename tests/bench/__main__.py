"""Run benchmarks: ``python -m tests.bench [name]``. Prints a table and writes bench.json.

Each compares with a peer or a physical limit in the same run, since machines are noisy: ratios are what to look at.
They use the server of TALLY_TEST_SERVER_URL, or an embedded one that is durable like an installation.
"""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tally.store.embedded import embedded_server
from tests.bench import (
    bills,
    close_vs_copy,
    http_ingest,
    ingest_vs_copy,
    lifecycle_query,
    month_of_instances,
    rating_vs_copy,
    scale,
    timeline_vs_duckdb,
)
from tests.conftest import temporary_home

BENCHMARKS: dict[str, Callable[[str], list[dict[str, object]]]] = {
    "ingest_vs_copy": ingest_vs_copy.run,
    "http_ingest_vs_copy": http_ingest.run,
    "timeline_vs_duckdb": timeline_vs_duckdb.run,
    "close_vs_copy": close_vs_copy.run,
    "bills_20000_projects_s": bills.run,
    "rating_vs_copy": rating_vs_copy.run,
    "close_vs_copy_5m": scale.run,
    "month_of_10000_instances_s": month_of_instances.run,
    "lifecycle_query_ms": lifecycle_query.run,
}
# Results that another benchmark brings along.
BROUGHT_BY = {
    "http_ingest_events_per_s": "http_ingest_vs_copy",
    "http_duplicates_vs_new": "http_ingest_vs_copy",
    "timeline_vs_duckdb_5m": "close_vs_copy_5m",
    "second_month_vs_first": "close_vs_copy_5m",
    "twelfth_month_vs_third": "close_vs_copy_5m",
    "late_correction_vs_close": "close_vs_copy_5m",
}
RESULTS = Path(__file__).parents[2] / "bench.json"
COLUMNS = ("name", "value", "unit", "reference", "reference_value", "ratio")


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    names = list(dict.fromkeys(BROUGHT_BY.get(name, name) for name in names))
    unknown = sorted(set(names) - set(BENCHMARKS))
    if unknown:
        print(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    results: list[dict[str, object]] = []
    with temporary_home() as home:
        os.environ["TALLY_HOME"] = str(home)
        if url := os.environ.get("TALLY_TEST_SERVER_URL"):
            results = _run(names, url)
        else:
            with embedded_server(home) as server:
                results = _run(names, server.url("postgres"))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    _print(results)
    return 0


def _run(names: list[str], server_url: str) -> list[dict[str, object]]:
    results = []
    for name in names or list(BENCHMARKS):
        print(f"{name} ...", file=sys.stderr)
        results += BENCHMARKS[name](server_url)
    return results


def _print(results: list[dict[str, object]]) -> None:
    table = Table(*COLUMNS)
    for result in results:
        table.add_row(*(str(result[column]) for column in COLUMNS))
    Console(width=160).print(table)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
