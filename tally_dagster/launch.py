"""Run one job for one month in this process: ``python -m tally_dagster.launch close_month 2026-03``.

The instance is that of DAGSTER_HOME, so that the run shows in the web interface. Exit code 0 if the job succeeded; else
1, with one line on stderr that names the step and the reason.
"""

import argparse
import contextlib
import sys
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from dagster import DagsterEvent, DagsterEventType, DagsterInstance, ExecuteInProcessResult

from assets.partitions import MONTHS
from tally.domain.errors import InvalidInput, TallyError
from tally.settings import Settings
from tally_dagster.definitions import build_definitions


def main(arguments: Sequence[str] | None = None) -> int:
    """Launch a job and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tally_dagster.launch", description="Run one job for one month.")
    parser.add_argument("job", choices=["close_month", "finalize_month"])
    parser.add_argument("period", help="a month such as 2026-03")
    parser.add_argument("--actor", default="", help="who launches it; kept as a tag of the run")
    parser.add_argument("--tag", action="append", default=[], metavar="NAME=VALUE", help="a tag of the run")
    options = parser.parse_args(arguments)
    try:
        result = launch(options.job, options.period, options.actor, dict(_tag(text) for text in options.tag))
    except TallyError as error:
        sys.stderr.write(f"{options.job} {options.period}: {error}\n")
        return 1
    except Exception as error:  # noqa: BLE001 - of Dagster itself: its traceback belongs in the log
        with _log(options.job, options.period).open("a", encoding="utf-8") as file:
            traceback.print_exc(file=file)
        sys.stderr.write(f"{options.job} {options.period}: {_innermost(error)}\n")
        return 1
    if not result.success:
        sys.stderr.write(f"{options.job} {options.period} failed at {failure(result)}\n")
        return 1
    return 0


def launch(job: str, period: str, actor: str, tags: Mapping[str, str] | None = None) -> ExecuteInProcessResult:
    """Execute a job here, with its progress on stderr and everything else in a log file below TALLY_HOME."""
    months = MONTHS.get_partition_keys()
    if period not in months:
        raise InvalidInput(f"months from {months[0]} to {months[-1]}, the present one, can be metered")
    log = _log(job, period)
    definitions = build_definitions()
    with DagsterInstance.get() as instance, _stdout_into(log.with_name("dbt-output.log")):
        return definitions.resolve_job_def(job).execute_in_process(
            run_config={"loggers": {"progress": {"config": {"log_file": str(log)}}}},
            instance=instance,
            partition_key=period,
            tags=dict(tags or {}) | ({"tally/actor": actor} if actor else {}),
            raise_on_error=False,
        )


def failure(result: ExecuteInProcessResult) -> str:
    """The first step that failed, and why, in one line."""
    violated = [
        f"{data.check_name}: {data.description}"
        for event in result.all_events
        if event.event_type == DagsterEventType.ASSET_CHECK_EVALUATION
        for data in [event.asset_check_evaluation_data]
        if not data.passed
    ]
    failed = [event for event in result.all_events if event.is_step_failure]
    if not failed:
        return "the start: " + _start_failure(result)
    return f"{failed[0].step_key}: " + ("; ".join(violated) or _reason(failed[0]))


def _reason(event: DagsterEvent) -> str:
    """The message of the exception that the step raised, without its traceback."""
    error = event.step_failure_data.error
    while error is not None and error.cause is not None:
        error = error.cause
    return " ".join(error.message.partition(": ")[2].split()) if error else "unknown"


def _start_failure(result: ExecuteInProcessResult) -> str:
    for event in result.all_events:
        if event.is_failure:
            return " ".join((event.message or "").split())
    return "unknown"


def _tag(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals:
        raise InvalidInput(f"{text!r} is no tag; write NAME=VALUE")
    return name, value


def _log(job: str, period: str) -> Path:
    logs = Settings.from_environment().home / "logs"
    logs.mkdir(parents=True, exist_ok=True)
    return logs / f"{job}-{period}.log"


def _innermost(error: BaseException) -> str:
    """What an exception comes from, in one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__


@contextlib.contextmanager
def _stdout_into(path: Path) -> Iterator[None]:
    with path.open("a", encoding="utf-8") as file, contextlib.redirect_stdout(file):
        yield


if __name__ == "__main__":
    sys.exit(main())
