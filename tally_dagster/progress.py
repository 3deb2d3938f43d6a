"""A Dagster logger for a person who waits: one line a step on stderr, everything into a file."""

import logging
import os
import sys
from pathlib import Path
from typing import Any

from dagster import DagsterEventType, InitLoggerContext, logger

from tally.services.runs import WAITING

_LINES = {
    DagsterEventType.STEP_START: "{step} ...",
    DagsterEventType.STEP_SUCCESS: "{step} done",
    DagsterEventType.STEP_FAILURE: "{step} FAILED",
    DagsterEventType.STEP_SKIPPED: "{step} skipped",
}


@logger({"log_file": str}, description="One line a step on stderr; everything into log_file.")
def progress(context: InitLoggerContext) -> logging.Logger:
    """Log a run for a person who waits for it."""
    log_file = Path(context.logger_config["log_file"])
    log_file.parent.mkdir(parents=True, exist_ok=True)
    # Not from the registry of loggers, which would hand this run's file to the next one.
    made = logging.Logger("tally", level=logging.DEBUG)  # noqa: LOG001
    everything = logging.FileHandler(log_file, encoding="utf-8")
    everything.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    made.addHandler(everything)
    made.addHandler(_StepLines())
    return made


class _StepLines(logging.Handler):
    """Writes to a duplicate of stderr: while a step runs, Dagster may redirect the original into its own store."""

    def __init__(self) -> None:
        super().__init__()
        self._stderr = os.fdopen(os.dup(sys.stderr.fileno()), "w")

    def emit(self, record: logging.LogRecord) -> None:
        """Write a line if the record is the event of a step, or tells of what takes long."""
        meta: dict[str, Any] = getattr(record, "dagster_meta", {})
        event = meta.get("dagster_event")
        line = _LINES.get(event.event_type, "").format(step=event.step_key) if event is not None else _told(meta)
        if line:
            self._stderr.write(line + "\n")
            self._stderr.flush()


def _told(meta: dict[str, Any]) -> str:
    """What can take long of all that runs log: the wait for another run, and the counters that a step fetches."""
    message = str(meta.get("orig_message") or "")
    return message if message.startswith(("counters ", WAITING)) else ""
