"""What is asked of a correction and refused, before anything of it is written (rule 20)."""

from pathlib import Path

import pytest

from tally.domain.errors import NotFound, Refused
from tally.domain.instants import parse_instant
from tally.services import runs
from tally.services.correct import CorrectionRequest
from tally.services.pricing import load_price_versions
from tally.store.database import connected
from tests.conftest import REPOSITORY
from tests.integration.closing import AFTER_GRACE, PERIOD, House
from tests.integration.correcting import finalize_month


@pytest.fixture
def finalized(house: House) -> House:
    """The small month, finalized."""
    finalize_month(house)
    return house


def refused(house: House, request: CorrectionRequest) -> tuple[str, ...]:
    """Why a correction does not begin; no run is left of it."""
    before = house.query("select count(*) from ledger.runs")
    with house.connected() as (reporting, metering), pytest.raises(Refused, match="2026-03 cannot be run") as caught:
        runs.start(reporting, metering, PERIOD, lambda: parse_instant(AFTER_GRACE), request=request)
    assert house.query("select count(*) from ledger.runs") == before
    return caught.value.reasons


def test_another_currency_is_refused(finalized: House, tmp_path: Path) -> None:
    """Rule 25: a bill in EUR is not taken back by one in USD. A version that is not loaded is named as such."""
    text = (REPOSITORY / "pricing" / "models" / "2026-03.yaml").read_text(encoding="utf-8")
    dollars = text.replace('"2026-03', '"2026-05').replace('currency: "EUR"', 'currency: "USD"')
    (tmp_path / "2026-05.yaml").write_text(dollars, encoding="utf-8")
    with connected(finalized.metering_url) as metering:
        load_price_versions(metering, tmp_path)
    reasons = refused(finalized, CorrectionRequest(price_version="2026-05", reason="agreed"))
    assert reasons == ("it was billed in EUR, and price version 2026-05 is in USD",)
    with pytest.raises(NotFound, match="price version '2026-09' is not loaded"):
        refused(finalized, CorrectionRequest(price_version="2026-09", reason="agreed"))


def test_counters_that_nobody_can_fetch_are_refused(finalized: House) -> None:
    """Without a VictoriaMetrics the kept ones would count on, and nobody would be told."""
    (reason,) = refused(finalized, CorrectionRequest(counters=True, reason="a gateway was mended"))
    assert "set TALLY_VICTORIAMETRICS_URL" in reason


def test_an_open_month_has_nothing_to_correct(house: House) -> None:
    """It is closed again instead."""
    (reason,) = refused(house, CorrectionRequest(everything=True, reason="a mended rule"))
    assert reason.startswith("it is not finalized")
