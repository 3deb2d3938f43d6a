"""Programs that Tally starts and that serve as long as it does."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

from tests.conftest import REPOSITORY

PATIENCE = 60  # seconds; only a program that goes on needs them
PARENT = """
import os, time
from tally.services.orchestrator import bound
server = ["http.server", "--bind", "127.0.0.1", "0"]
with bound(server, os.environ | {"PYTHONUNBUFFERED": "1"}, output=1) as process:
    print(process.pid, flush=True)
    time.sleep(600)
"""


def test_a_program_ends_with_the_process_that_started_it_even_if_that_is_killed() -> None:
    """As `tally up` runs Dagster, in a session of its own. Both hold one output: its end is the end of both."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT], cwd=REPOSITORY, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    group = int(parent.stdout.readline())
    try:
        assert parent.stdout.readline().startswith("Serving HTTP")
        parent.kill()
        parent.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
