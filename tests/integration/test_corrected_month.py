"""A corrected month as it is shown: what counts, corrections included (rules 17 and 20)."""

from collections.abc import Iterator
from decimal import Decimal

import pytest

from tally.domain.errors import InvalidInput, Refused
from tally.services.bills import bills
from tally.services.correct import CorrectionRequest
from tally.services.corrections import last_correction, refuse_unless_finalized, tags
from tally.store.database import connected
from tally.store.metering.differences import BillSum, ProjectSum
from tests.conftest import fresh_database
from tests.integration.api_server import live_api
from tests.integration.closing import LARGE, PERIOD, House, instance

CLOUD = "os-prod-eu1"
MARCH = {"period": "2026-03"}
LATE = instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9")


@pytest.fixture(scope="module")
def corrected(
    server_url: str, reporting_template: str, metering_template: str, tally_home: None  # noqa: ARG001
) -> Iterator[House]:
    """S55, in a month of its own: a delete of the 20th has come late and is corrected; nothing here changes it."""
    with (
        fresh_database(server_url, reporting_template) as reporting_url,
        fresh_database(server_url, metering_template) as metering_url,
    ):
        house = House(reporting_url, metering_url)
        house.ingest(instance("l-1", "02-01T00:00:00", "create.end", "late", size=LARGE, project_id="p-9"))
        house.ingest(instance("k-1", "03-05T00:00:00", "create.end", "kept", size=LARGE, project_id="p-8"))
        house.close()
        assert house.launch("finalize_month").success
        house.ingest(LATE)
        house.close()
        yield house


def test_lists_hold_all_records_so_that_sums_are_right(corrected: House) -> None:
    """Original, reversal and what holds instead; the sums are those of the bills that count."""
    with live_api(corrected.reporting_url, corrected.metering_url) as client:
        usage = client.items("/api/v1/usage-records", limit=1, project_id="p-9", **MARCH)
        rated = client.items("/api/v1/rated-records", limit=2, **MARCH)
        shown = client.items("/api/v1/bills", limit=1, **MARCH)
    assert sorted((row["sign"], row["usage"]["minutes"]) for row in usage) == [(-1, -44640), (1, 28080), (1, 44640)]
    late = [row for row in rated if row["project_id"] == "p-9"]
    assert sorted(row["sign"] for row in late) == [-1] * 3 + [1] * 6
    assert sum(row["amount"] for row in late) == Decimal("93.60")
    by_id = {row["id"]: row for row in rated}
    assert all(by_id[row["reverses_id"]]["amount"] == -row["amount"] for row in late if row["sign"] == -1)
    assert [(bill["project_id"], bill["bill"]["total"]) for bill in shown] == [
        ("p-8", shown[0]["total"]),
        ("p-9", Decimal("93.60")),
    ]
    assert sum(row["amount"] for row in rated) == sum(bill["total"] for bill in shown)


def test_a_bill_names_the_run_that_wrote_it(corrected: House) -> None:
    """What has not changed is of the regular run, what has is of the correction."""
    (regular,), (correction,) = (
        corrected.query(f"select id from ledger.runs where kind = '{kind}'") for kind in ("regular", "correction")
    )
    with live_api(corrected.reporting_url, corrected.metering_url) as client:
        shown = client.items("/api/v1/bills", **MARCH)
        runs = client.items("/api/v1/runs", **MARCH)
    assert {bill["project_id"]: bill["run_id"] for bill in shown} == {
        "p-8": str(regular[0]),
        "p-9": str(correction[0]),
    }
    assert {run["kind"]: run["corrects_run_id"] for run in runs} == {
        "regular": None,
        "correction": str(regular[0]),
    }


def test_a_period_is_corrected_once_a_correction_has_written_something(corrected: House) -> None:
    """Its run is still the regular one."""
    with live_api(corrected.reporting_url, corrected.metering_url) as client:
        (march,) = client.items("/api/v1/periods")
    assert march["status"] == "corrected"
    assert corrected.query("select id::text from ledger.runs where kind = 'regular'") == [(march["run_id"],)]


def test_a_correction_says_what_it_has_changed(corrected: House) -> None:
    """S55 by project: 16,560 minutes and 55.20 less."""
    with connected(corrected.metering_url) as metering:
        made = last_correction(metering, PERIOD)
        counting = {bill.project_id: bill.total for bill in bills(metering, PERIOD)}
    assert made is not None
    assert made.projects == (ProjectSum(CLOUD, "p-9", "EUR", 4, 4, Decimal(-16560), Decimal("-55.20")),)
    assert made.bills == BillSum(1, 1, Decimal("-55.20"))
    assert counting["p-9"] == Decimal("93.60")


def test_only_a_finalized_month_is_corrected(house: House, corrected: House) -> None:
    """Another is closed again."""
    with connected(house.metering_url) as metering:
        assert last_correction(metering, PERIOD) is None
        with pytest.raises(Refused, match=r"2026-03 cannot be corrected.*tally close 2026-03"):
            refuse_unless_finalized(metering, PERIOD)
    with connected(corrected.metering_url) as metering:
        refuse_unless_finalized(metering, PERIOD)


def test_what_is_asked_of_a_correction_is_read_from_its_tags() -> None:
    """The command line and the asset agree on their names."""
    from assets.partitions import requested

    for request in (
        CorrectionRequest(),
        CorrectionRequest("2026-04", everything=True, counters=True, reason="a = b"),
        CorrectionRequest(reason="why"),
    ):
        assert requested(tags(request)) == request
    with pytest.raises(InvalidInput, match="needs a reason"):
        CorrectionRequest("2026-04")
