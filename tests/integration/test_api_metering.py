"""Bills, usage, costs, periods and runs over HTTP: exact, page by page, and for who may see them (S61)."""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from tally.domain.period import BillingPeriod
from tally.domain.principal import Principal, Role
from tally.services.ledger_queries import list_bills
from tally.store.database import Connection, connected
from tally.store.metering import queries
from tally.store.metering import runs as run_store
from tally.store.metering.bills import BillRow, insert_bills
from tally.store.metering.queries import LedgerFilter
from tests.integration.api_server import exact, live_api
from tests.integration.callers import api_for, consumer
from tests.integration.closing import House
from tests.integration.registering import connect, create
from tests.integration.test_late import finalized_run

CLOUD = "os-prod-eu1"
MARCH = {"period": "2026-03"}
LISTS = ("bills", "usage-records", "rated-records")
CALLERS = {
    "operator": Principal("operator", Role.OPERATOR),
    "finance": Principal("finance", Role.READ_ALL),
    "p-1": consumer((CLOUD, "p-1")),
    "p-2": consumer((CLOUD, "p-2"), ("elsewhere", "p-1")),
    "nobody": consumer(),
    "collector": Principal("collector", Role.INGEST),
}


def address(name: str) -> str:
    """Where a list is."""
    return f"/api/v1/{name}"


def test_a_bill_is_the_document_of_the_ledger_byte_for_byte(house: House) -> None:
    """Rule 30: not a digit is written otherwise than it is stored."""
    columns = "cloud, project_id, platform, total, currency, document"
    stored = house.query(f"select {columns} from ledger.bills order by cloud, project_id")
    assert len(stored) == 2
    with live_api(house.reporting_url, house.metering_url) as client:
        response = client.get(address("bills"), **MARCH)
    for row, shown in zip(stored, exact(response)["items"], strict=True):
        assert row[:5] == tuple(shown[name] for name in ("cloud", "project_id", "platform", "total", "currency"))
        assert f'"bill":{row[5]}' in response.text
        assert shown["status"] == "completed"


def test_records_are_shown_as_the_ledger_has_them(house: House) -> None:
    """Rules 14 and 23: lengths, quantities and amounts exactly; the sum of the costs is that of the bills."""
    with live_api(house.reporting_url, house.metering_url) as client:
        usage = client.items(address("usage-records"), limit=2, **MARCH)
        rated = client.items(address("rated-records"), limit=3, **MARCH)
        bills = client.items(address("bills"), limit=1, **MARCH)
    assert [(row["resource_id"], row["id"]) for row in usage] == [
        (resource_id, str(id_))
        for resource_id, id_ in house.query(
            "select resource_id, id from ledger.usage_records order by cloud, resource_type, resource_id, id"
        )
    ]
    assert {row["usage"]["count"] for row in usage} == {1}
    exactly = "select id, amount_exact, amount, quantity, price from ledger.rated_records"
    assert {(r["id"], r["amount_exact"], r["amount"], r["quantity"], r["price"]) for r in rated} == {
        (str(id_), *numbers) for id_, *numbers in house.query(exactly)
    }
    assert {row["usage_record_id"] for row in rated} <= {row["id"] for row in usage}
    assert sum(row["amount"] for row in rated) == sum(bill["total"] for bill in bills) > Decimal(0)


@pytest.mark.parametrize("name", LISTS)
def test_s61_a_consumer_sees_its_own_part_of_a_month(house: House, name: str) -> None:
    """S61: usage and costs of its projects, bills that are its own; another's is refused by name."""
    with api_for(house.reporting_url, house.metering_url, CALLERS) as clients:
        projects = {
            who: {(row["cloud"], row["project_id"]) for row in clients[who].items(address(name), limit=1, **MARCH)}
            for who in ("operator", "finance", "p-1", "p-2", "nobody")
        }
        filtered = clients["p-1"].items(address(name), project_id="p-1", cloud=CLOUD, **MARCH)
        refused = [
            clients["p-1"].get(address(name), project_id="p-2", **MARCH).status_code,
            clients["p-2"].get(address(name), project_id="p-1", cloud=CLOUD, **MARCH).status_code,
            clients["nobody"].get(address(name), project_id="p-1", **MARCH).status_code,
            clients["collector"].get(address(name), **MARCH).status_code,
        ]
        elsewhere = clients["p-2"].items(address(name), project_id="p-1", **MARCH)
    everything = {(CLOUD, "p-1"), (CLOUD, "p-2")}
    assert projects == {
        "operator": everything,
        "finance": everything,
        "p-1": {(CLOUD, "p-1")},
        "p-2": {(CLOUD, "p-2")},
        "nobody": set(),
    }
    assert {row["project_id"] for row in filtered} == {"p-1"}
    assert refused == [403] * 4
    assert elsewhere == []


def test_s61_an_event_of_another_project_is_not_named(house: House) -> None:
    """S61: neither by the usage that it ends, nor by what explains a cost; who sees both projects sees it."""
    callers = CALLERS | {"both": consumer((CLOUD, "p-1"), (CLOUD, "p-9"))}
    with connected(house.metering_url) as metering:
        metering.execute("update raw.events set project_id = 'p-9' where event_id = 'e-4'")
    with api_for(house.reporting_url, house.metering_url, callers) as clients:
        for who, named in (("operator", "e-4"), ("both", "e-4"), ("p-1", None)):
            usage = clients[who].items(address("usage-records"), resource_id="i-1", **MARCH)
            last = max(usage, key=lambda record: record["to"])
            assert (last["from_event_id"], last["to_event_id"]) == ("e-3", named)
            rated = clients[who].items(address("rated-records"), resource_id="i-1", **MARCH)
            record = next(row["id"] for row in rated if row["usage_record_id"] == last["id"])
            told = exact(clients[who].get(f"{address('rated-records')}/{record}/explanation", **MARCH))
            assert (told["usage"]["from_event_id"], told["usage"]["to_event_id"]) == ("e-3", named)
            assert (told["ended_by"] and told["ended_by"]["event_id"]) == named


@pytest.mark.parametrize("name", LISTS[1:])
def test_records_are_found_by_their_resource(house: House, name: str) -> None:
    """Filters narrow down what is shown."""
    with live_api(house.reporting_url, house.metering_url) as client:
        one = client.items(address(name), resource_type="instance", resource_id="i-2", cloud=CLOUD, **MARCH)
        none = client.items(address(name), resource_type="volume", **MARCH)
    assert {row["resource_id"] for row in one} == {"i-2"}
    assert none == []


@pytest.mark.parametrize("name", LISTS)
def test_a_month_that_was_not_run_is_not_found(house: House, name: str) -> None:
    """404 for a month, 400 for what is none."""
    with live_api(house.reporting_url, house.metering_url) as client:
        assert client.get(address(name), period="2026-02").status_code == 404
        for period in ("2026-13", "2026-3", "march", ""):
            assert client.get(address(name), period=period).status_code == 400
        assert client.get(address(name)).status_code == 400


def test_pages_of_two_runs_are_never_mixed(house: House) -> None:
    """Rule 17: where another run takes the place of the one that was begun to read, the cursor says so."""
    with live_api(house.reporting_url, house.metering_url) as client:
        cursors = {name: exact(client.get(address(name), limit=1, **MARCH))["next_cursor"] for name in LISTS}
        for name, cursor in cursors.items():
            assert client.get(address(name), limit=1, cursor=cursor, **MARCH).status_code == 200
        house.close()
        for name, cursor in cursors.items():
            response = client.get(address(name), limit=1, cursor=cursor, **MARCH)
            assert (response.status_code, response.json()["type"]) == (400, "urn:tally:problem:invalid-request")
            assert "again" in response.json()["detail"]


@pytest.mark.parametrize("name", [*LISTS, "periods", "runs"])
def test_the_cursor_of_another_query_is_refused(house: House, name: str) -> None:
    """400 for that of other filters, of another list, and for garbage."""
    month = MARCH if name in LISTS else {}
    with live_api(house.reporting_url, house.metering_url) as client:
        cursor = exact(client.get(address("usage-records"), limit=1, project_id="p-1", **MARCH))["next_cursor"]
        for strange in (cursor, "x", cursor[:-8], "\0"):
            assert client.get(address(name), cursor=strange, **month).status_code == 400


def test_long_documents_shorten_a_page(metering: Connection, reporting: Connection) -> None:
    """A page holds whole documents, at least one, and no more than memory is for."""
    run = finalized_run(reporting, metering)
    metering.execute("set session_replication_role = replica")  # into a finalized run, which its triggers refuse
    length = queries.BYTES_OF_BILLS // 2
    document = '{"' + "x" * (length - 6) + '":1}'
    insert_bills(
        metering,
        run.id,
        [BillRow("c", f"p-{n}", "test", Decimal(n), "EUR", document, "") for n in range(5)],
    )
    rows = list_bills(metering, run, LedgerFilter(), visible=None, after=None, limit=5)
    assert [(row.project_id, row.document is not None) for row in rows] == [
        ("p-0", True),
        ("p-1", True),
        ("p-2", False),
        ("p-3", False),
        ("p-4", False),
    ]
    with live_api(reporting.info.dsn, metering.info.dsn) as client:
        assert len(exact(client.get(address("bills"), limit=4, **MARCH))["items"]) == 2
        assert [bill["project_id"] for bill in client.items(address("bills"), limit=4, **MARCH)] == [
            f"p-{n}" for n in range(5)
        ]


def test_periods_say_where_each_month_stands(house: House) -> None:
    """Rule 17: the newest first, with the live run; what is late for a finalized one is not for consumers."""
    with api_for(house.reporting_url, house.metering_url, CALLERS) as clients:
        (march,) = clients["operator"].items(address("periods"))
        assert (march["period"], march["status"], march["preliminary"]) == ("2026-03", "closable", False)
        with connected(house.metering_url) as metering:
            run_store.mark_finalized(metering, UUID(march["run_id"]), BillingPeriod.parse("2026-05").start)
        with connected(house.reporting_url) as reporting:
            create(reporting, "a")
            create(reporting, "b")
            connect(reporting, "a", "b")
        shown = {who: clients[who].items(address("periods"), limit=1) for who in ("finance", "p-1", "nobody")}
    assert shown["finance"] == [march | {"status": "finalized", "late_relations": 1}]
    assert shown["p-1"] == shown["nobody"] == [march | {"status": "finalized"}]


def test_periods_and_runs_come_page_by_page(reporting: Connection, metering: Connection) -> None:
    """The newest first, each once, also those that began at one instant."""
    months = [f"2026-{month:02d}" for month in range(1, 5)]
    made = [finalized_run(reporting, metering, BillingPeriod.parse(month)) for month in months]
    with metering.transaction():  # in which now() stands still
        for month in ("2025-01", "2025-02", "2025-03"):
            begin(metering, replace(made[0], period=month))
    with live_api(reporting.info.dsn, metering.info.dsn) as client:
        periods = client.items(address("periods"), limit=3)
        runs = client.items(address("runs"), limit=2)
        running = client.items(address("runs"), limit=2, status="running")
        march = client.items(address("runs"), period="2026-03", status="finalized")
        assert client.get(address("runs"), status="done").status_code == 400
    assert [row["period"] for row in periods] == months[::-1]
    assert sorted(row["period"] for row in running) == ["2025-01", "2025-02", "2025-03"]
    assert [row["period"] for row in runs] == [row["period"] for row in running] + months[::-1]
    assert [row["id"] for row in march] == [str(made[2].id)]
    assert march[0]["outputs_hash"] == "hash"


def test_runs_are_for_those_who_see_everything(house: House) -> None:
    """403 for a consumer: a run tells of all projects."""
    with api_for(house.reporting_url, house.metering_url, CALLERS) as clients:
        assert clients["p-1"].get(address("runs")).status_code == 403
        assert [row["status"] for row in clients["finance"].items(address("runs"))] == ["completed"]


def begin(metering: Connection, like: Any) -> None:
    """Begin a run like another."""
    names = ("period", "period_from", "period_to", "zone", "metered_to", "load_id", "registry_version", "code_version")
    values: Mapping[str, Any] = {name: getattr(like, name) for name in (*names, "kind", "preliminary")}
    run_store.insert_run(metering, {**values, "status": "running"})
