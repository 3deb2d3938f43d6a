"""Runs whose process ended, or that were made step by step and overtaken: nothing half made ever completes."""

import signal
from collections.abc import Sequence
from pathlib import Path

import pytest

from tally.domain.errors import NotFound, Refused
from tally.domain.instants import parse_instant
from tally.domain.period import BillingPeriod
from tally.services import orchestrator, runs
from tally.services.installation import Databases
from tally.settings import Settings
from tally.store.database import Connection, connected
from tests.integration.closing import House
from tests.integration.sending import CREATE, send, volume

MARCH, APRIL = BillingPeriod.parse("2026-03"), BillingPeriod.parse("2026-04")
NOW = parse_instant("2026-06-01T00:00:00Z")


def run_rows(metering: Connection) -> Sequence[tuple[str, str]]:
    """Period and status of all runs, the oldest first."""
    return [(run.period, run.status) for run in reversed(runs.runs(metering))]


@pytest.mark.parametrize("next_period", [MARCH, APRIL])
def test_a_run_fails_as_another_begins(reporting: Connection, metering: Connection, next_period: BillingPeriod) -> None:
    """Of whatever month: they share the tables of dbt, so the overtaken one would complete without its records."""
    send(reporting, volume("e-1", "05T10:00:00", CREATE, 10))
    left = runs.start(reporting, metering, MARCH, lambda: NOW)
    metering.execute(
        "insert into ledger.findings (run_id, kind, blocking, cloud, platform, resource_type, subject, detail)"
        " values (%s, 'open_left', true, 'c', 'p', 't', 's', 'd')",
        [left.id],
    )
    runs.start(reporting, metering, next_period, lambda: NOW)
    assert run_rows(metering) == [("2026-03", "failed"), (str(next_period), "running")]
    assert "broken off" in str(runs.runs(metering, MARCH)[-1].failure)
    assert metering.execute("select count(*) from ledger.findings").fetchone() == (0,)
    if next_period != MARCH:
        with pytest.raises(NotFound, match="no run of 2026-03 is being made"):
            runs.running(metering, MARCH)


def test_a_run_that_is_completed_cannot_fail(house: House) -> None:
    """Whatever goes wrong right after its completion takes none of its records away."""
    records = house.query("select count(*) from ledger.usage_records")
    with connected(house.metering_url) as metering:
        [run] = runs.runs(metering, MARCH)
        with pytest.raises(ConnectionError), runs.making(metering, run):
            raise ConnectionError("the answer to the commit was lost")
        assert run_rows(metering) == [("2026-03", "completed")]
    assert house.query("select count(*) from ledger.usage_records") == records


def test_a_job_that_is_killed_is_told_by_its_signal(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its last line of progress is no reason."""
    program = home / "python"
    program.write_text("#!/bin/sh\necho 'rate_usage ...' >&2\nkill -KILL $$\n")
    program.chmod(0o755)
    monkeypatch.setattr("sys.executable", str(program))
    url = "postgresql://nobody@127.0.0.1:1/none"
    said: list[str] = []
    with pytest.raises(Refused) as caught:
        orchestrator.run_job(
            Settings(home), Databases(url, url, url), "close_month", "2026-03", actor="test", say=said.append
        )
    assert f"ended by signal {int(signal.SIGKILL)} (Killed) at rate_usage" in str(caught.value)
    assert "close_month-2026-03.log" in str(caught.value)
