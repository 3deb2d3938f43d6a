"""A corrected month as it is shown: what counts, corrections included (rules 17 and 20)."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tally.cli.explanations import lines
from tally.domain.errors import InvalidInput, Refused
from tally.services.bills import bills
from tally.services.correct import CorrectionRequest
from tally.services.corrections import last_correction, refuse_unless_finalized, tags
from tally.services.explain import Explanation, explain
from tally.store.database import connected
from tally.store.metering.differences import BillSum, ProjectSum
from tests.integration.api_server import exact, live_api
from tests.integration.callers import api_for, consumer
from tests.integration.closing import LARGE, PERIOD, House, copied, instance

CLOUD = "os-prod-eu1"
MARCH = {"period": "2026-03"}
LATE = instance("l-2", "03-20T12:00:00", "delete.end", "late", project_id="p-9")


@pytest.fixture(scope="module")
def corrected(
    server_url: str, reporting_template: str, metering_template: str, tally_home: None  # noqa: ARG001
) -> Iterator[House]:
    """S55, in a month of its own: a delete of the 20th has come late and is corrected; nothing here changes it."""
    with copied(server_url, (reporting_template, metering_template)) as house:
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


def rated_ids(house: House, where: str) -> list[str]:
    """Ids of rated records."""
    return [str(id_) for (id_,) in house.query(f"select id from ledger.rated_records where {where} order by dimension")]


def explained(house: House, record_id: str, **options: Any) -> Explanation:
    """The explanation of a rated record of March."""
    with connected(house.metering_url) as metering:
        return explain(metering, UUID(record_id), **options)


def test_a_cost_is_explained_from_the_cent_to_the_events(corrected: House) -> None:
    """Rule 21: in numbers to check by hand, with the event that began its interval before the month."""
    (disk, _, _) = rated_ids(corrected, "project_id = 'p-8'")
    found = explained(corrected, disk)
    assert list(lines(found))[:9] == [
        "51.84 EUR  disk_gb of instance kept",
        f"project    {CLOUD}/p-8",
        "formula    microseconds x quantity x price x state modifier x type modifier / microseconds of an hour",
        "           2332800000000 x 80 x 0.001 x 1 x 1 = 186624000000 / 3600000000 = 51.840000000000",
        "           51.84: rounded once, half up (away from zero), to 2 decimals",
        f"prices     version 2026-03, content hash {found.record.pricing_hash}",
        f"usage      2026-03-05T00:00:00Z to 2026-04-01T00:00:00Z, active, record {found.usage.id}",
        "begun by   compute.instance.create.end k-1 at 2026-03-05T00:00:00Z",
        "ended by   nothing that is known",
    ]
    assert found.holds
    assert (found.run.kind, found.reverses, found.reversed_by) == ("regular", None, None)


def test_a_reversal_is_explained_by_what_it_reverses(corrected: House) -> None:
    """And the original by its reversal; what holds instead names the late delete."""
    (original,) = rated_ids(corrected, "project_id = 'p-9' and dimension = 'vcpus' and amount = 59.52")
    (reversal,) = rated_ids(corrected, "project_id = 'p-9' and dimension = 'vcpus' and sign = -1")
    (instead,) = rated_ids(corrected, "project_id = 'p-9' and dimension = 'vcpus' and amount = 37.44")
    first, second, third = (explained(corrected, record_id) for record_id in (original, reversal, instead))
    assert first.reversed_by is not None
    assert str(first.reversed_by.record_id) == reversal
    assert second.reverses is not None
    assert str(second.reverses.record_id) == original
    assert (third.reverses, third.reversed_by) == (None, None)
    assert all(found.holds for found in (first, second, third))
    assert [found.run.kind for found in (first, second, third)] == ["regular", "correction", "correction"]
    events = [(found.caused_by and found.caused_by.event_id, found.ended_by and found.ended_by.event_id)
              for found in (first, second, third)]
    assert events == [("l-1", None), ("l-1", None), ("l-1", "l-2")]


def test_an_explanation_is_for_who_may_see_the_project(corrected: House) -> None:
    """404 for others, for another month, and for what does not exist."""
    (disk, _, _) = rated_ids(corrected, "project_id = 'p-8'")
    with api_for(
        corrected.reporting_url,
        corrected.metering_url,
        {"own": consumer((CLOUD, "p-8")), "same id": consumer(("elsewhere", "p-8")), "other": consumer((CLOUD, "p-9"))},
    ) as clients:
        shown = exact(clients["own"].get(f"/api/v1/rated-records/{disk}/explanation", **MARCH))
        assert clients["own"].get(f"/api/v1/rated-records/{disk}/explanation", period="2026-04").status_code == 404
        for name in ("same id", "other"):
            assert clients[name].get(f"/api/v1/rated-records/{disk}/explanation", **MARCH).status_code == 404
    assert (shown["record"]["amount"], shown["holds"]) == (Decimal("51.84"), True)
    assert shown["caused_by"]["event_id"] == "k-1"
    assert shown["working"]["numerator"] == 186624000000


def test_a_bill_is_handed_on_in_each_form(corrected: House) -> None:
    """The document of the ledger, its lines, and a page that nothing can be loaded into; to who may see the project."""
    asked = MARCH | {"cloud": CLOUD, "project_id": "p-9"}
    who = {"own": consumer((CLOUD, "p-9")), "other": consumer((CLOUD, "p-8"))}
    with api_for(corrected.reporting_url, corrected.metering_url, who) as clients:
        ((document,),) = corrected.query("select document from ledger.bills where project_id = 'p-9' and total = 93.60")
        assert clients["own"].get("/api/v1/bills/document", **asked).text == document
        lines = clients["own"].get("/api/v1/bills/document", **asked, format="csv").text.splitlines()
        page = clients["own"].get("/api/v1/bills/document", **asked, format="html")
        assert clients["other"].get("/api/v1/bills/document", **asked).status_code == 403
        assert clients["own"].get("/api/v1/bills/document", **asked | {"period": "2026-04"}).status_code == 404
        assert clients["own"].get("/api/v1/bills/document", **asked, format="pdf").status_code == 400
    assert len(lines) == 1 + 3
    assert "Credit note 1" in page.text
    assert page.headers["Content-Security-Policy"].startswith("default-src 'none'")
    assert page.headers["Content-Disposition"] == "inline; filename*=UTF-8''2026-03-p-9.html"
