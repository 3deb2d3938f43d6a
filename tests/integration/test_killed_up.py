"""Kill -9 of `tally up`: Dagster ends with it, a run in progress goes on to its end, and the next one takes over."""

from pathlib import Path
from typing import Any

import pytest

from tests.conftest import temporary_home
from tests.integration.api_process import free_port
from tests.integration.closing import House
from tests.integration.command_line import processes_that_name
from tests.integration.dagster_web import DagsterWeb, dagster_up, eventually


def started(web: DagsterWeb) -> list[dict[str, Any]]:
    return [run for run in web.runs() if run["status"] == "STARTED"]


def ended(web: DagsterWeb) -> list[dict[str, Any]]:
    return [run for run in web.runs() if run["endTime"]]


@pytest.mark.drill
def test_after_a_kill_of_tally_up_the_next_one_has_its_port_and_the_run_its_end(
    house: House, dagster_url: str, tmp_path: Path
) -> None:
    """At once: nothing of the killed one serves, launches or keeps the port, and its code servers end with the run."""
    port = free_port()
    with temporary_home() as home:
        environment = house.environment(home, dagster_url)
        with dagster_up(environment, tmp_path / "killed.log", port) as killed:
            killed.backfill(str(house.period))
            eventually(lambda: started(killed))
            killed.process.kill()
            with dagster_up(environment, tmp_path / "up.log", port) as web:
                (run,) = eventually(lambda: ended(web))
                assert run["status"] == "SUCCESS"
        eventually(lambda: processes_that_name(str(home)) == [])
    assert house.query("select status from ledger.runs order by load_id") == [("superseded",), ("completed",)]
