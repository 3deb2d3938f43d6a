"""Derive a finalized run again, beside what counts: ``python -m tally_dagster.replay RUN``.

Its models are built from nothing, from all that the run has read, in schemas of their own. No run of Dagster is made,
since nothing comes of it that anybody reads but `tally verify`, which holds the metering lock meanwhile and drops them.
"""

import argparse
import sys
from collections.abc import Sequence
from uuid import UUID

import simplejson

from resources.databases import Databases
from resources.dbt_runner import invoke
from tally.domain.errors import TallyError
from tally.store.metering.replay import PREFIX


def main(arguments: Sequence[str] | None = None) -> int:
    """Replay a run and return the exit code; what went wrong is one line on stderr."""
    parser = argparse.ArgumentParser(prog="python -m tally_dagster.replay", description="Derive a run again.")
    parser.add_argument("run", type=UUID, help="its id")
    options = parser.parse_args(arguments)
    try:
        replay(Databases().metering(), options.run)
    except TallyError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def replay(url: str, run: UUID) -> None:
    """Build usage and costs of a run, of all resources, in the schemas of a replay.

    Raises:
        DbtError: naming the model that failed.
    """
    variables = {"run_id": str(run), "scope": "all", "schema_prefix": PREFIX}
    selection = ["--select", "+int_usage_records", "+int_rated_records", "--vars", simplejson.dumps(variables)]
    # Names of schemas are settled when the project is parsed: what was parsed before is of no use, and must stay.
    invoke(["run", *selection, "--full-refresh", "--no-partial-parse", "--no-write-json"], url)


if __name__ == "__main__":
    sys.exit(main())
