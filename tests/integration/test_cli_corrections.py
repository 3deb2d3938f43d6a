"""A finalized month on the command line: what is late, its correction, its explanation, its proof (S55)."""

import json
from pathlib import Path
from uuid import UUID

import pytest

from tally.store.database import connected
from tally.store.metering.runs import mark_finalized
from tests.integration.closing import House, instance
from tests.integration.command_line import environment, run
from tests.integration.metering_sql import NOW

DELETE = instance("l-2", "03-20T12:00:00", "delete.end", "i-2", project_id="p-2")


@pytest.mark.slow
def test_a_late_delete_is_told_corrected_explained_and_proved(house: House, home: Path, dagster_url: str) -> None:
    """Each command says what it has done, in figures; a correction without news says so, and so does a close.

    The instance i-2 costs 0.10 an hour: 64.80 from the 5th on, 37.20 until it is deleted.
    """
    variables = environment(
        TALLY_HOME=str(home),
        TALLY_REPORTING_URL=house.reporting_url,
        TALLY_METERING_URL=house.metering_url,
        TALLY_DAGSTER_URL=dagster_url,
    )
    refused = run(variables, "correct", "2026-03")
    assert refused.status == 1
    assert "2026-03 cannot be corrected: it is not finalized" in refused.error
    ((run_id,),) = house.query("select id from ledger.runs")
    with connected(house.metering_url) as metering:
        mark_finalized(metering, UUID(str(run_id)), NOW)
    assert run(variables, "ingest", "-", stdin=json.dumps(DELETE).encode()).status == 0

    asked = run(variables, "correct", "2026-03", "--price-version", "lost", "--reason", "agreed")
    assert (asked.status, asked.error) == (1, "tally: price version 'lost' is not loaded; loaded: 2026-03")
    twice = run(variables, "finalize", "2026-03")
    assert "what arrives late is a correction: tally correct 2026-03" in twice.error

    late = run(variables, "late")
    assert late.status == 0
    assert "together -16560 minutes, -27.60 EUR" in late.out

    corrected = run(variables, "correct", "2026-03", "--reason", "the collector was down")
    assert corrected.status == 0, corrected.err
    lines = [line.split() for line in corrected.out.splitlines()]
    assert ["os-prod-eu1", "p-2", "4", "4", "-16560", "-27.60", "EUR"] in lines
    assert corrected.out.splitlines()[-1] == "bills: 1 taken back, 1 new, together -27.60"
    assert "37.20" in run(variables, "bill", "2026-03").out
    assert run(variables, "late").out == "2026-03: nothing is late\n"
    assert "corrected" in run(variables, "periods").out
    assert "correction" in run(variables, "runs", "2026-03").out

    again = run(variables, "close", "2026-03")
    assert again.out.splitlines()[-1] == "nothing has changed; no records were written"
    assert "2026-03 is finalized: this is a correction." in again.err

    ((rated,),) = house.query("select id from ledger.rated_records where amount = 7.44 and sign = 1")
    explained = run(variables, "explain", str(rated), "--period", "2026-03")
    assert explained.out.startswith("7.44 EUR  ram_gb of instance i-2\n")
    assert run(variables, "explain", str(rated)).out == explained.out
    assert run(variables, "explain", str(run_id)).status == 1

    proved = run(variables, "verify", "2026-03")
    assert (proved.status, proved.out.splitlines()[0]) == (
        0,
        "2026-03 and its 2 correction(s) are as they were finalized",
    )
    with connected(house.metering_url) as metering:
        metering.execute("alter table ledger.bills disable trigger user")
        metering.execute("update ledger.bills set document = replace(document, 'EUR', 'USD') where total = 37.20")
    found = run(variables, "verify", "2026-03")
    assert found.status == 1
    assert found.out.startswith("bill os-prod-eu1/p-2: its document in run ")
