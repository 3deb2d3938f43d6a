"""A finalized month on the command line: what is late, its correction, its explanation, its proof (S55)."""

import json
from uuid import UUID

import pytest

from tally.store.database import Connection
from tally.store.metering.runs import mark_finalized
from tests.integration.closing import LARGE, instance
from tests.integration.metering_sql import NOW
from tests.integration.test_cli import Tally, installed, tally  # noqa: F401 - fixtures

CREATE = instance("l-1", "02-01T00:00:00", "create.end", "late", size=LARGE, project_id="p-9")
DELETE = instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9")


@pytest.mark.slow
def test_a_late_delete_is_told_corrected_explained_and_proved(tally: Tally, metering: Connection) -> None:  # noqa: F811
    """Each command says what it has done, in figures; a correction without news says so, and so does a close."""
    assert tally("ingest", "-", stdin=json.dumps(CREATE).encode()).status == 0
    assert tally("close", "2026-03").status == 0
    refused = tally("correct", "2026-03")
    assert refused.status == 1
    assert "2026-03 cannot be corrected: it is not finalized" in refused.error
    (run_id,) = metering.execute("select id from ledger.runs").fetchall()[0]
    mark_finalized(metering, UUID(str(run_id)), NOW)
    assert tally("ingest", "-", stdin=json.dumps(DELETE).encode()).status == 0

    late = tally("late")
    assert late.status == 0
    assert "together -16560 minutes, -55.20 EUR" in late.out

    corrected = tally("correct", "2026-03", "--reason", "the collector was down")
    assert corrected.status == 0, corrected.err
    lines = [line.split() for line in corrected.out.splitlines()]
    assert ["os-prod-eu1", "p-9", "4", "4", "-16560", "-55.20", "EUR"] in lines
    assert corrected.out.splitlines()[-1] == "bills: 1 taken back, 1 new, together -55.20"
    assert "93.60" in tally("bill", "2026-03").out
    assert "corrected" in tally("periods").out

    again = tally("close", "2026-03")
    assert again.out.splitlines()[-1] == "nothing has changed; no records were written"
    assert "2026-03 is finalized: this is a correction." in again.err

    (rated,) = metering.execute("select id from ledger.rated_records where amount = 18.72").fetchall()[0]
    explained = tally("explain", str(rated), "--period", "2026-03")
    assert explained.out.startswith("18.72 EUR  ram_gb of instance late\n")
    assert tally("explain", str(rated)).out == explained.out
    assert tally("explain", str(run_id)).status == 1

    proved = tally("verify", "2026-03")
    assert (proved.status, proved.out.splitlines()[0]) == (
        0,
        "2026-03 and its 2 correction(s) are as they were finalized",
    )
    metering.execute("alter table ledger.bills disable trigger user")
    metering.execute("update ledger.bills set document = replace(document, 'EUR', 'USD') where total = 93.60")
    found = tally("verify", "2026-03")
    assert found.status == 1
    assert found.out.startswith("bill os-prod-eu1/p-9: its document in run ")
